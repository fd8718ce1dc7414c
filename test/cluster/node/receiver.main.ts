// Receives callbacks in a pod: keeps every call for `/calls`, and responds after the delay set by `/delay`. Uses no packages.

interface KeptCall {
  readonly id: string
  readonly timestamp: string
  readonly signature: string
  readonly body: string
}

const calls: KeptCall[] = []
let delayMs = 0

Bun.serve({
  port: 8080,
  idleTimeout: 120,
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url)
    if (pathname === '/calls') return Response.json(calls.slice(Number(searchParams.get('from'))))
    if (pathname === '/delay') {
      delayMs = Number(searchParams.get('ms'))
      return new Response('delay set\n')
    }
    if (pathname !== '/hook') return new Response('ready\n')
    const header = (name: string) => request.headers.get(name) ?? ''
    calls.push({
      id: header('webhook-id'),
      timestamp: header('webhook-timestamp'),
      signature: header('webhook-signature'),
      body: await request.text(),
    })
    if (delayMs > 0) await Bun.sleep(delayMs)
    return new Response(undefined, { status: 204 })
  },
})

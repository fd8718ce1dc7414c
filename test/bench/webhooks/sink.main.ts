/**
 * Callbacks of all tenants: answers 200 at once, or after 30 s if set so, and records the arrival time of each event.
 * Prints its port.
 */
import { numberIn } from './calls.ts'
import { wallMs } from './wall-clock.ts'

const hangMs = 30_000
const eventsMax = 4_000_000
/** Time of first arrival by event number. */
const arrivals = new Float64Array(eventsMax * 2)
const hanging = new Set<string>()
const seen = new Set<string>()
let count = 0
let repeated = 0

const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  idleTimeout: 120,
  async fetch(request) {
    const { pathname } = new URL(request.url)
    const slug = pathname.slice(pathname.lastIndexOf('/') + 1)
    if (pathname.startsWith('/deliveries/')) return deliver(request, slug)
    if (pathname.startsWith('/hanging/')) {
      if (request.method === 'PUT') hanging.add(slug)
      else hanging.delete(slug)
      return new Response('{}')
    }
    if (pathname === '/counts') return Response.json({ count, repeated })
    if (pathname === '/arrivals') return new Response(arrivals.slice(0, count * 2))
    if (pathname === '/reset') {
      seen.clear()
      count = 0
      repeated = 0
      return new Response('{}')
    }
    return new Response('no such page', { status: 404 })
  },
})

async function deliver(request: Request, slug: string): Promise<Response> {
  const arrivedAtMs = wallMs()
  const text = await request.text()
  const n = numberIn(text)
  const id = request.headers.get('webhook-id') ?? ''
  if (seen.has(id)) repeated += 1
  else if (n !== undefined && count < eventsMax) {
    seen.add(id)
    arrivals.set([n, arrivedAtMs], count * 2)
    count += 1
  }
  if (hanging.has(slug)) await Bun.sleep(hangMs)
  return new Response('{}')
}

process.stdout.write(`${server.port}\n`)

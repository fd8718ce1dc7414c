import { expect, test } from 'bun:test'
import { join } from 'node:path'

test('ops self-check: ignores the proxy environment variables', async () => {
  const server = Bun.serve({ hostname: '127.0.0.1', port: 0, fetch: () => new Response('ok') })
  const script = `
    import { callSelf } from ${JSON.stringify(join(import.meta.dir, 'ops.ts'))}
    await callSelf('http://127.0.0.1:${server.port}', AbortSignal.timeout(5000))
    console.log('answered')`
  const proxy = 'http://127.0.0.1:1'
  const child = Bun.spawn([process.execPath, '-e', script], {
    env: { ...process.env, HTTP_PROXY: proxy, http_proxy: proxy, NO_PROXY: '' },
    stdout: 'pipe',
  })
  expect((await new Response(child.stdout).text()).trim()).toBe('answered')
  await server.stop(true)
})

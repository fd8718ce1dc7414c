import { afterAll, describe, expect, test } from 'bun:test'
import { latchkey } from '#test/support/processes/latchkey.ts'

let asked = 0
const server = Bun.serve({
  port: 0,
  hostname: '127.0.0.1',
  fetch({ url }) {
    const { pathname } = new URL(url)
    if (pathname === '/well') return new Response('yes')
    asked += 1
    // Reports not ready on the first call.
    return new Response(null, { status: asked > 1 ? 204 : 503 })
  },
})
afterAll(() => server.stop(true))
const at = (path: string) => `http://127.0.0.1:${server.port}${path}`

describe('check', () => {
  test('latchkey check: waits for a 2xx response of each address and prints its status', async () => {
    const { code, out, err } = await latchkey(['check', at('/well'), at('/late')], {})
    expect([code, out, err]).toEqual([0, `${at('/well')}: 200\n${at('/late')}: 204\n`, ''])
  })

  test('latchkey check --json: prints the response of each address', async () => {
    const { code, out } = await latchkey(['check', at('/well'), '--json'], {})
    expect([code, JSON.parse(out)]).toEqual([0, [{ url: at('/well'), ok: true, answer: '200' }]])
  })

  test.each([[[]], [['well']], [['file:///etc/hosts']]])(
    'latchkey check: rejects the arguments %j',
    async (args) => {
      const { code, out, err } = await latchkey(['check', ...args], {})
      expect([code, out]).toEqual([2, ''])
      expect(err).toContain('latchkey check --help')
    },
  )

  test('latchkey check: prints its help', async () => {
    expect(await latchkey(['check', '--help'], {})).toMatchObject({ code: 0, err: '' })
  })
})

describe('remove-finalizers', () => {
  test.each([[['--all']], [['shops']]])(
    'latchkey remove-finalizers: rejects the arguments %j',
    async (args) => {
      const { code, err } = await latchkey(['remove-finalizers', ...args], {})
      expect(code).toBe(2)
      expect(err).toContain('latchkey remove-finalizers --help')
    },
  )

  test('latchkey remove-finalizers: outside a cluster, the error names the missing setting', async () => {
    const { code, err } = await latchkey(['remove-finalizers'], {})
    expect([code, err]).toEqual([
      1,
      'The command failed: the address of the API server is unknown: run this command in a pod, or set KUBECONFIG\n',
    ])
  })
})

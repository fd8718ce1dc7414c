// Behaviour specific to Fastify: responses of the Fetch API, and callers that hang up.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import { type AddressInfo, connect } from 'node:net'
import { type FastifyInstance, type FastifyRequest, fastify, type RouteHandlerMethod } from 'fastify'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { idempotency } from './fastify.ts'
import type { IdempotencyOptions } from './guard.ts'
import { Latchkey } from './index.ts'

let api: TestApi
let latchkey: Latchkey
let app: FastifyInstance
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterEach(() => app.close())
afterAll(() => api.close())

/** Serves POST /charges by this handler, and returns its port. */
async function serve(
  principal: IdempotencyOptions<readonly [FastifyRequest]>['principal'],
  handler: RouteHandlerMethod,
): Promise<number> {
  app = fastify({ forceCloseConnections: true })
  await app.register(idempotency(latchkey, { principal, lockSeconds: 1, waitMs: 4000 }))
  app.post('/charges', handler)
  await app.listen({ port: 0, host: '127.0.0.1' })
  return (app.server.address() as AddressInfo).port
}

function post(port: number, key: string) {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key }
  return fetch(`http://127.0.0.1:${port}/charges`, { method: 'POST', headers, body: '{}' })
}

const newKey = () => `"${crypto.randomUUID()}"`

test.each([
  ['with a body', 'done'],
  ['without a body', null],
])('fastify: a Response %s is sent with its status and headers, and replayed', async (_what, body) => {
  let count = 0
  const port = await serve('none', async () => {
    count += 1
    const headers = [
      ['location', '/1'],
      ['set-cookie', 'a=1'],
      ['set-cookie', 'b=2'],
    ] as [string, string][]
    return new Response(body, { status: 201, headers })
  })
  const key = newKey()
  for (const [replayed, cookies] of [
    [null, ['a=1', 'b=2']],
    ['true', []],
  ]) {
    const response = await post(port, key)
    expect([response.status, response.headers.get('location'), await response.text()]).toEqual([
      201,
      '/1',
      body ?? '',
    ])
    expect(response.headers.get('idempotent-replayed')).toBe(replayed as string | null)
    expect(response.headers.getSetCookie()).toEqual(cookies as string[])
  }
  expect(count).toBe(1)
})

test.each([
  ['before it runs', true],
  ['while it runs', false],
])(
  'fastify: a handler that never responds to a caller that disconnected %s loses its lock',
  async (_what, isBefore) => {
    const { promise: started, resolve: start } = Promise.withResolvers<void>()
    const { promise: called, resolve: begin } = Promise.withResolvers<void>()
    const principal = async (request: FastifyRequest) => {
      if (isBefore && request.headers['x-hang'] !== undefined) {
        start()
        await once(request.raw.socket, 'close')
      }
      return 'ada'
    }
    const port = await serve(principal, () => {
      start()
      begin()
      return new Promise(() => undefined)
    })
    const key = newKey()
    const socket = connect({ port, host: '127.0.0.1' })
    socket.write(
      `POST /charges HTTP/1.1\r\nHost: x\r\nX-Hang: 1\r\nContent-Type: application/json\r\nContent-Length: 2\r\nIdempotency-Key: ${key}\r\n\r\n{}`,
    )
    await started
    socket.destroy()
    await called
    const response = await post(port, key)
    expect((await response.json()) as object).toMatchObject({ code: 'idempotency_outcome_unknown' })
  },
)

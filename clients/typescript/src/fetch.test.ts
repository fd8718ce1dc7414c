// Handlers of the Fetch API after middleware that has read the body.
import { afterAll, beforeAll, expect, test } from 'bun:test'
import { Hono } from 'hono'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { idempotency, idempotent } from './fetch.ts'
import { Latchkey } from './index.ts'

let api: TestApi
let latchkey: Latchkey
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterAll(() => api.close())

const newKey = () => `"${crypto.randomUUID()}"`

test('Hono: a body that an earlier middleware has read is part of the fingerprint', async () => {
  const app = new Hono()
  const guard = idempotency(latchkey, { principal: 'none' })
  app.post(
    '/charges',
    async (context, next) => {
      await context.req.json()
      await next()
    },
    guard,
    (context) => context.text('done'),
  )
  const key = newKey()
  const post = (body: string) =>
    app.request('/charges', { method: 'POST', body, headers: { 'idempotency-key': key } })
  expect((await post('{"amount":1}')).status).toBe(200)
  expect((await post('{"amount":1}')).headers.get('idempotent-replayed')).toBe('true')
  expect((await post('{"amount":2}')).status).toBe(422)
})

test('Fetch API: a body that was already read causes an error that says what to do', async () => {
  const guarded = idempotent(latchkey, { principal: 'none' }, () => new Response('done'))
  const request = new Request('http://localhost/charges', {
    method: 'POST',
    body: '{}',
    headers: { 'idempotency-key': newKey() },
  })
  await request.text()
  expect(guarded(request)).rejects.toThrow('put the idempotency middleware first')
})

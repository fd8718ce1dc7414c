import { beforeAll, beforeEach, expect, test } from 'bun:test'
import { readEvent } from '#internal/events/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { pastRequestsOf } from './shown-call.ts'
import { forwardedOf } from './webhook.ts'

let lab: DeliveryLab
beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(() => truncateEvents(lab.pool))

/** Delivers an event to a server that answers in its own way; returns what it received and the stored attempt. */
async function delivered(response: () => Response, fields: Parameters<DeliveryLab['accept']>[2] = {}) {
  const received: { request: Request; body: string }[] = []
  await using server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    async fetch(request) {
      received.push({ request, body: await request.text() })
      return response()
    },
  })
  const url = `http://127.0.0.1:${server.port}/hooks?shop=7`
  const tenant = await lab.addTenant({ url, schedule: ['0s'] })
  const [id] = await lab.accept(tenant.id, 1, fields)
  const { stop } = lab.forwarder()
  await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
  await stop()
  const view = id && (await readEvent(lab.pool, { id }, Date.now()))
  const [attempt] = view ? view.attempts : []
  const [first] = received
  if (!view || !first || !attempt?.exchange) throw new Error('no recorded attempt')
  return { url, ...first, view, attempt, exchange: attempt.exchange }
}

const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'

test('past request: has the URL, headers and length that the callback received, without the signature', async () => {
  const payload = '{"sum":"1 €","n":820982911946154508}'
  const { request, body, url, view, attempt, exchange } = await delivered(() => new Response('ok'), {
    payload,
    payloadBytes: Buffer.byteLength(payload),
    headers: JSON.stringify({ 'latchkey-hops': '2', traceparent }),
  })
  const past = pastRequestsOf(forwardedOf(view))({ ...attempt, exchange })
  expect([past.method, past.url, past.bodyBytes]).toEqual(['POST', url, Buffer.byteLength(body)])
  const shown = Object.fromEntries(past.headers)
  const sent = Object.fromEntries(request.headers)
  expect({ ...shown, 'webhook-signature': '' }).toEqual({ ...sent, 'webhook-signature': '' })
  expect(shown).toMatchObject({ traceparent, 'latchkey-hops': '2' })
  expect(shown['webhook-signature']).toBe('v1,[redacted]')
  expect(JSON.stringify(view)).not.toContain(sent['webhook-signature']?.slice(3, 20) ?? '')
})

test('exchange: the record of an attempt has the timing and the response headers, with credentials redacted', async () => {
  const { exchange } = await delivered(
    () =>
      new Response('x'.repeat(20_000), {
        headers: { 'Set-Cookie': 'session=planted-1', 'X-Api-Key': 'planted-2', 'X-Shard': '7' },
      }),
  )
  expect(exchange.headers).toContainEqual(['set-cookie', '[redacted]'])
  expect(exchange.headers).toContainEqual(['x-api-key', '[redacted]'])
  expect(exchange.headers).toContainEqual(['x-shard', '7'])
  expect(exchange).toMatchObject({ isAnswerCut: true, isReused: false, address: '127.0.0.1', signatures: 1 })
  expect(exchange.connectMs).toBeGreaterThanOrEqual(0)
  expect(exchange.firstByteMs).toBeGreaterThanOrEqual(0)
  expect(await lab.value<string>('SELECT exchange FROM attempts')).not.toContain('planted')
})

test('exchange: the record of a call without a response contains the explanation', async () => {
  const closed = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response() })
  const url = `http://127.0.0.1:${closed.port}/`
  await closed.stop(true)
  const tenant = await lab.addTenant({ url, schedule: ['0s'] })
  const [id] = await lab.accept(tenant.id)
  const { stop } = lab.forwarder()
  await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
  await stop()
  const view = id && (await readEvent(lab.pool, { id }, Date.now()))
  expect(view && view.attempts).toMatchObject([
    { status: null, exchange: { headers: [], problem: expect.stringContaining('ECONNREFUSED') as string } },
  ])
})

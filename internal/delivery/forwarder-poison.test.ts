import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { dayAfter, type EventId } from '#internal/base/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
import { callbackQueueOf } from '#internal/events/index.ts'
import { partitionName } from '#internal/storage/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver
beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  await truncateEvents(lab.pool)
})
afterEach(() => receiver.stop())

const stateOf = (id: EventId | undefined) => lab.value<string>('SELECT state FROM events WHERE id = $1', [id])

describe('poison messages', () => {
  test('poison message: every five claims by crashed processes count as a failed attempt until the schedule ends', async () => {
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s', '1h'] })
    const [id] = await lab.accept(tenant.id)
    const die = () =>
      lab.pool.query("UPDATE deliveries_due SET leased_until = now() - interval '1 s' WHERE lease = 'dead'")
    for (let attempt = 1; attempt <= 2; attempt += 1) {
      for (let claims = 1; claims <= 5; claims += 1) {
        const taken = await lab.claim({
          notified: [callbackQueueOf(tenant.id)],
          lease: { token: 'dead', lengthMs: 1_000 },
        })
        expect(taken.claimed.map(({ claims }) => claims)).toEqual([claims])
        await die()
      }
      const { forwarder, stop } = lab.forwarder()
      forwarder.notify([callbackQueueOf(tenant.id)])
      await lab.becomes(attempt, 'SELECT count(*) FROM attempts')
      await stop()
      if (attempt === 1)
        await lab.pool.query('UPDATE deliveries_due SET lease = NULL, claims = 0, due_at = now()')
    }
    expect(await stateOf(id)).toBe('delivery_failed')
    expect(receiver.calls).toHaveLength(0)
    expect(await lab.value("SELECT count(*) FROM attempts WHERE cause = 'worker_lost'")).toBe(2)
  })

  test.each(['events', 'event_payloads', 'attempts'] as const)(
    'poison message: if a delivery’s partition of %s was dropped, the delivery is completed and others are sent',
    async (table) => {
      const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s'] })
      const otherDays = { expiresOn: dayAfter(Date.now(), 90), payloadExpiresOn: dayAfter(Date.now(), 7) }
      await lab.accept(tenant.id, 3, otherDays)
      const day = table === 'event_payloads' ? otherDays.payloadExpiresOn : otherDays.expiresOn
      await lab.pool.query(`DROP TABLE ${partitionName({ table, day })}`)
      const { forwarder, stop, observed } = lab.forwarder()
      await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
      const [later] = await lab.accept(tenant.id)
      forwarder.notify([callbackQueueOf(tenant.id)])
      await lab.becomes('processed', 'SELECT state FROM events WHERE id = $1', [later])
      await stop()
      expect(observed.unwritable).toBe(0)
      expect(receiver.calls.length).toBe(table === 'attempts' ? 4 : 1)
    },
  )

  test('poison message: stored texts that are not JSON reach the callback', async () => {
    await receiver.stop()
    receiver = startReceiver({ accepts: 'anything' })
    const tenant = await lab.addTenant({ url: receiver.url, schedule: ['0s'] })
    await lab.accept(tenant.id, 1, { headers: 'no JSON "latchkey-hops":"', payload: '\\' })
    const { stop } = lab.forwarder()
    const [call] = await receiver.received(1)
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
    await stop()
    expect(call?.body).toContain('"payload":\\,"headers":no JSON')
  })

  test.each([
    [
      'answers with too much',
      () => new Response('x'.repeat(1_000_000), { headers: { 'x-a': 'b'.repeat(4_000) } }),
    ],
    ['answers in bytes that are no text', () => new Response(new Uint8Array([0, 255, 254, 0, 128]))],
    [
      'sends a malformed webhook-delivery header',
      () => new Response('', { status: 200, headers: { 'webhook-delivery': 'disable;; x=%00' } }),
    ],
    [
      'names an absurd time',
      () => new Response('', { status: 503, headers: { 'retry-after': '9'.repeat(400) } }),
    ],
    ['redirects to itself', () => new Response('', { status: 302, headers: { location: receiver.url } })],
  ])('poison message: a callback that %s does not delay others', async (_what, answer) => {
    const odd = startReceiver()
    odd.answer(answer)
    const tenant = await lab.addTenant({ url: odd.url, schedule: ['0s', '1h'] })
    const other = await lab.addTenant({ url: receiver.url })
    await lab.accept(tenant.id)
    await lab.accept(other.id)
    const { stop, observed } = lab.forwarder()
    await odd.received(1)
    await receiver.received(1)
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE lease IS NOT NULL OR due_at <= now()')
    await stop()
    await odd.stop()
    expect(await lab.value('SELECT count(*) FROM attempts')).toBe(2)
    expect([observed.failed, observed.unwritable]).toEqual([[], 0])
  })

  test('poison message: an exception during sending fails an attempt and does not delay others', async () => {
    const tenant = await lab.addTenant({ url: 'http://127.0.0.1:9/', schedule: ['0s'] })
    const other = await lab.addTenant({ url: receiver.url })
    const [id] = await lab.accept(tenant.id)
    await lab.accept(other.id)
    const outbound = createOutbound({ cidrsMax: ['127.0.0.0/8'], ports: 'any' })
    const { stop, observed } = lab.forwarder({
      outbound: {
        send(call) {
          if (call.url === receiver.url) return outbound.send(call)
          throw new Error('a fault of ours')
        },
        close: () => outbound.close(),
      },
    })
    await receiver.received(1)
    await lab.becomes(0, 'SELECT count(*) FROM deliveries_due')
    await stop()
    outbound.close()
    expect(observed.failed.map(String)).toEqual(['Error: a fault of ours'])
    expect(await stateOf(id)).toBe('delivery_failed')
    expect(await lab.value('SELECT cause FROM attempts WHERE event_id = $1', [id])).toBe('internal_error')
  })
})

import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { poll } from '#internal/dev/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/delivery-lab.ts'
import { resumeCallback } from './lane-state.ts'
import { requeueFailed } from './requeue.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  await lab.pool.query('TRUNCATE dedupe_keys, events, event_payloads, attempts, deliveries_due, lanes')
})
afterEach(() => receiver.stop())

const stateOf = 'SELECT state FROM events WHERE id = $1'
const waiting = 'SELECT count(*) FROM deliveries_due'

describe('a delivery', () => {
  test('arrives once, whole, signed as Standard Webhooks says', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const ids = await lab.accept(tenant.id, 300)
    const { told, attempts, stop } = lab.forwarder()
    const calls = await receiver.received(300)
    await lab.becomes(0, waiting)
    await stop()
    expect(calls.map(({ id }) => id).toSorted()).toEqual(ids.toSorted())
    expect(calls.every(({ verified }) => verified)).toBe(true)
    const [call] = calls
    const event = JSON.parse(call?.body ?? '') as Record<string, unknown>
    expect(event).toMatchObject({
      id: call?.id,
      provider: 'generic',
      tenantId: tenant.id,
      type: 'order.created',
    })
    expect(call?.body).toContain('"amount":820982911946154508')
    expect(call?.headers.get('content-type')).toBe('application/json')
    expect(call?.headers.get('latchkey-hops')).toBe('1')
    expect(
      await lab.value("SELECT count(*) FROM events WHERE state = 'processed' AND settled_at IS NOT NULL"),
    ).toBe(300)
    expect(
      await lab.value("SELECT count(*) FROM attempts WHERE outcome = 'delivered' AND status = 204"),
    ).toBe(300)
    expect(attempts.length).toBe(300)
    expect(attempts.every(({ delayMs }) => delayMs !== undefined && delayMs >= 0)).toBe(true)
    expect(told).toEqual({ lost: 0, swept: 0, gaveBack: 0, opened: 0, suspended: 0, failed: [] })
  })
})
void poll
void resumeCallback
void requeueFailed
void stateOf

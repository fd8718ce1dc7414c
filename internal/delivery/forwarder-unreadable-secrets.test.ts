import { afterAll, beforeAll, expect, test } from 'bun:test'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'

let lab: DeliveryLab
let receiver: CallbackReceiver

beforeAll(async () => {
  lab = await createDeliveryLab()
  receiver = startReceiver()
})
afterAll(async () => {
  await lab.close()
  await receiver.stop()
})

const stateOf = 'SELECT state FROM events WHERE id = $1'

test('unreadable signing secrets: a delivery waits without an attempt while other tenants are served', async () => {
  const tenant = await lab.addTenant({ url: receiver.url })
  const served = await lab.addTenant({ url: receiver.url })
  lab.changeTenant(tenant.id, { secrets: tenant.secrets.map((each) => ({ ...each, keyId: 'lost' })) })
  const [id] = await lab.accept(tenant.id)
  const { stop, attempts } = lab.forwarder()
  await lab.becomes(0, 'SELECT count(*) FROM deliveries_due WHERE event_id = $1 AND due_at <= now()', [id])
  const [other] = await lab.accept(served.id)
  await lab.becomes('processed', stateOf, [other])
  expect(attempts.map(({ delivery }) => delivery.eventId)).toEqual([other as string] as never)
  expect(await lab.value('SELECT attempts FROM deliveries_due WHERE event_id = $1', [id])).toBe(0)
  expect(await lab.value('SELECT claims FROM deliveries_due WHERE event_id = $1', [id])).toBe(0)
  lab.changeTenant(tenant.id, { secrets: tenant.secrets })
  await lab.pool.query('UPDATE deliveries_due SET due_at = now() WHERE event_id = $1', [id])
  await lab.pool.query('UPDATE tenant_queues SET next_due_at = now() WHERE tenant_id = $1', [tenant.id])
  await lab.becomes('processed', stateOf, [id])
  await stop()
  expect(await lab.value('SELECT count(*) FROM attempts WHERE event_id = $1', [id])).toBe(1)
})

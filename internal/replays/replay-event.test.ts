import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'bun:test'
import { createEventId, dayAfter, type EventId } from '#internal/base/index.ts'
import { callbackQueueOf } from '#internal/events/index.ts'
import { type CallbackReceiver, startReceiver } from '#test/support/events/callback-receiver.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { truncateEvents } from '#test/support/events/truncate-events.ts'
import { replayEvent, retryEvent } from './replay-event.ts'

const dayMs = 86_400_000
let lab: DeliveryLab
let receiver: CallbackReceiver

beforeAll(async () => {
  lab = await createDeliveryLab()
  return () => lab.close()
})
beforeEach(async () => {
  receiver = startReceiver()
  await truncateEvents(lab.pool, 'audit')
})
afterEach(() => receiver.stop())

const replay = (eventId: EventId, fields: { tenantId?: EventIdOwner; nowMs?: number } = {}) =>
  replayEvent(
    lab.pool,
    { eventId, by: 'ann', ...(fields.tenantId && { tenantId: fields.tenantId }) },
    fields.nowMs ?? Date.now(),
  )
type EventIdOwner = Awaited<ReturnType<DeliveryLab['addTenant']>>['id']

/** Stores an event whose delivery cycle has ended in this state. */
async function ended(state: string, url = receiver.url) {
  const tenant = await lab.addTenant({ url })
  const [id] = await lab.accept(tenant.id)
  if (id === undefined) throw new Error('no event')
  await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = $1', [id])
  await lab.pool.query('UPDATE events SET state = $2, completed_at = now() WHERE id = $1', [id, state])
  return { tenant, id }
}

const cycles = 'SELECT cycle FROM deliveries_due WHERE event_id = $1'
const enable = (tenantId: string, stage: string) =>
  lab.pool.query(
    `UPDATE tenants SET spec = spec || jsonb_build_object('walletRollout', jsonb_build_object('stage', $2::text))
    WHERE id = $1`,
    [tenantId, stage],
  )

describe('replayEvent', () => {
  test('replay of an event: 40 concurrent calls and a later call for the same cycle begin only one new cycle', async () => {
    const { tenant, id } = await ended('processed')
    const seen = () => replayEvent(lab.pool, { eventId: id, by: 'ann', cycle: 1 }, Date.now())
    const results = await Promise.all(Array.from({ length: 40 }, seen))
    expect(results.filter(({ kind }) => kind === 'queued')).toHaveLength(1)
    expect(new Set(results.map(({ kind }) => kind))).toEqual(new Set(['queued', 'already_queued']))
    await lab.pool.query('DELETE FROM deliveries_due WHERE event_id = $1', [id])
    await lab.pool.query(`UPDATE events SET state = 'processed', completed_at = now() WHERE id = $1`, [id])
    expect(await seen()).toEqual({ kind: 'changed', tenantId: tenant.id, cycle: 2 })
    expect(await lab.value('SELECT count(*) FROM audit')).toBe(1)
  })

  test.each(['processed', 'delivery_failed'])(
    'replay of an event: a %s event is delivered again under the same id',
    async (state) => {
      const { tenant, id } = await ended(state)
      const { forwarder, stop } = lab.forwarder()
      expect(await replay(id)).toEqual({ kind: 'queued', tenantId: tenant.id, cycle: 2 })
      forwarder.notify([callbackQueueOf(tenant.id)])
      const [call] = await receiver.received(1)
      await lab.becomes('processed', 'SELECT state FROM events WHERE id = $1', [id])
      await stop()
      expect(call?.id).toBe(id)
      expect(await lab.value('SELECT cycle FROM attempts')).toBe(2)
    },
  )

  test('replay of an event: if forwarders are not notified, one finds the replay by polling', async () => {
    const { id } = await ended('processed')
    await lab.pool.query(
      "INSERT INTO tenant_queues (tenant_id, destination, next_due_at) SELECT tenant_id, 'callback', 'infinity' FROM events ON CONFLICT (tenant_id, destination) DO UPDATE SET next_due_at = 'infinity', idle_checks = 1",
    )
    const { stop } = lab.forwarder()
    await replay(id)
    await receiver.received(1)
    await stop()
  })

  test('replay of an event: 40 concurrent calls queue the event once', async () => {
    const { tenant, id } = await ended('processed')
    const results = await Promise.all(Array.from({ length: 40 }, () => replay(id)))
    expect(results.filter(({ kind }) => kind === 'queued')).toHaveLength(1)
    expect(results.filter(({ kind }) => kind === 'already_queued')).toHaveLength(39)
    expect(new Set(results.map((result) => JSON.stringify({ ...result, kind: '' }))).size).toBe(1)
    expect(await lab.value(cycles, [id])).toBe(2)
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(1)
    const { rows } = await lab.pool.query('SELECT actor, action, tenant_id, detail FROM audit')
    const detail = { eventId: id, cycle: 2 }
    expect(rows).toEqual([{ actor: 'ann', action: 'events.replayed', tenant_id: tenant.id, detail }])
  })

  test('replay of an event: the new delivery is queued as a retry', async () => {
    const { id } = await ended('processed')
    await replay(id)
    expect(await lab.value('SELECT is_retry AND due_at <= now() AND attempts = 0 FROM deliveries_due')).toBe(
      true,
    )
  })

  test('replay of an event: a verified event is refused until its provider is enabled', async () => {
    const { tenant, id } = await ended('verified')
    expect(await replay(id)).toEqual({ kind: 'not_enabled' })
    await enable(tenant.id, 'verify')
    expect(await replay(id)).toEqual({ kind: 'not_enabled' })
    expect(await lab.value('SELECT count(*) FROM audit')).toBe(0)
    await enable(tenant.id, 'enabled')
    expect(await replay(id)).toMatchObject({ kind: 'queued' })
  })

  test('replay of an event: an unknown event and an expired payload are refused', async () => {
    const { tenant, id } = await ended('processed')
    const stranger = await lab.addTenant()
    expect(await replay(id, { tenantId: stranger.id })).toEqual({ kind: 'not_found' })
    expect(await replay(createEventId(Date.now(), 90))).toEqual({ kind: 'not_found' })
    // After 31 days only the payload has expired, although it is not deleted yet. Later the event expires as well.
    expect(await replay(id, { nowMs: Date.now() + 31 * dayMs })).toEqual({ kind: 'payload_expired' })
    expect(await replay(id, { nowMs: Date.now() + 91 * dayMs })).toEqual({ kind: 'not_found' })
    await lab.pool.query('UPDATE tenants SET deleted_at = now() WHERE id = $1', [tenant.id])
    expect(await replay(id)).toEqual({ kind: 'not_found' })
    await lab.pool.query('UPDATE tenants SET deleted_at = NULL WHERE id = $1', [tenant.id])
    await lab.pool.query('UPDATE events SET cycle = 32767')
    expect(await replay(id)).toEqual({ kind: 'cycles_exhausted' })
    await lab.pool.query('UPDATE events SET cycle = 32766')
    await lab.pool.query('DELETE FROM event_payloads')
    expect(await replay(id)).toEqual({ kind: 'payload_expired' })
    expect(await lab.value('SELECT count(*) FROM deliveries_due')).toBe(0)
    expect(await lab.value('SELECT count(*) FROM audit')).toBe(0)
  })

  test('replay of an event: an event whose day has no partition is not found', async () => {
    const longAgo = createEventId(Date.now() - 80 * dayMs, 90)
    expect(dayAfter(Date.now(), 0) < dayAfter(Date.now() - 80 * dayMs, 90)).toBe(true)
    expect(await replay(longAgo)).toEqual({ kind: 'not_found' })
  })

  test('replay of an event: an event with a delivery in progress is already queued', async () => {
    const tenant = await lab.addTenant({ url: receiver.url })
    const [id] = await lab.accept(tenant.id)
    if (id === undefined) throw new Error('no event')
    expect(await replay(id)).toEqual({ kind: 'already_queued', tenantId: tenant.id, cycle: 1 })
    await lab.claim()
    expect(await replay(id)).toEqual({ kind: 'already_queued', tenantId: tenant.id, cycle: 1 })
    expect(await lab.value('SELECT claims FROM deliveries_due')).toBe(1)
  })
})

describe('retryEvent', () => {
  const retry = (eventId: EventId, tenantId: EventIdOwner) =>
    retryEvent(lab.pool, { eventId, tenantId, by: 'ann' }, Date.now())
  const audited = async () => (await lab.pool.query('SELECT action, detail FROM audit')).rows

  /** Stores an event whose first attempt failed; the next one is due in an hour, and no forwarder looks for it before. */
  async function waiting() {
    const tenant = await lab.addTenant({ url: receiver.url })
    const [id] = await lab.accept(tenant.id)
    if (id === undefined) throw new Error('no event')
    await lab.pool.query(
      `UPDATE deliveries_due SET due_at = now() + interval '1 hour', is_retry = true, attempts = 1`,
    )
    await lab.pool.query(`UPDATE tenant_queues SET next_due_at = now() + interval '1 hour', idle_checks = 1`)
    return { tenant, id }
  }

  test('retry of an event: a waiting delivery is attempted immediately, and this counts as its next attempt', async () => {
    const { tenant, id } = await waiting()
    const { stop } = lab.forwarder()
    expect(await retry(id, tenant.id)).toEqual({ kind: 'due_now', tenantId: tenant.id, cycle: 1 })
    const [call] = await receiver.received(1)
    await lab.becomes('processed', 'SELECT state FROM events WHERE id = $1', [id])
    await stop()
    expect(call?.id).toBe(id)
    expect(await lab.value('SELECT attempt FROM attempts')).toBe(2)
    expect(await audited()).toEqual([{ action: 'events.retried', detail: { eventId: id, cycle: 1 } }])
  })

  test('retry of an event: 40 concurrent calls change a waiting delivery once', async () => {
    const { tenant, id } = await waiting()
    const results = await Promise.all(Array.from({ length: 40 }, () => retry(id, tenant.id)))
    expect(results.filter(({ kind }) => kind === 'due_now')).toHaveLength(1)
    expect(results.filter(({ kind }) => kind === 'already_queued')).toHaveLength(39)
    expect(await lab.value('SELECT attempts FROM deliveries_due')).toBe(1)
    expect(await audited()).toHaveLength(1)
  })

  test('retry of an event: an attempt in progress is not changed', async () => {
    const { tenant, id } = await waiting()
    await lab.pool.query(`UPDATE deliveries_due SET lease = 'a', leased_until = now() + interval '1 minute'`)
    expect(await retry(id, tenant.id)).toMatchObject({ kind: 'already_queued' })
    expect(await lab.value(`SELECT due_at > now() + interval '50 minutes' FROM deliveries_due`)).toBe(true)
    expect(await audited()).toEqual([])
  })

  test('retry of an event: a failed event begins a new delivery cycle', async () => {
    const { tenant, id } = await ended('delivery_failed')
    expect(await retry(id, tenant.id)).toEqual({ kind: 'queued', tenantId: tenant.id, cycle: 2 })
    expect(await audited()).toEqual([{ action: 'events.replayed', detail: { eventId: id, cycle: 2 } }])
  })

  test('retry of an event: another tenant’s event is not found', async () => {
    const { id } = await waiting()
    const stranger = await lab.addTenant()
    expect(await retry(id, stranger.id)).toEqual({ kind: 'not_found' })
    expect(await lab.value(`SELECT due_at > now() + interval '50 minutes' FROM deliveries_due`)).toBe(true)
  })
})

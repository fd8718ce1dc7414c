import { afterAll, beforeAll, beforeEach, expect, test } from 'bun:test'
import { createEventId, dayAfter, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import { createDeliveryLab, type DeliveryLab } from '#test/support/events/delivery-lab.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { lowestIdOf } from './list-source.ts'
import { createQueueExpiry, forgetDedupeKeys } from './retention.ts'

let lab: DeliveryLab
beforeAll(async () => {
  lab = await createDeliveryLab()
})
afterAll(() => lab.close())
beforeEach(async () => {
  await lab.pool.query('TRUNCATE deliveries_due, dedupe_keys')
})

const dayMs = 86_400_000
const nowMs = Date.parse('2031-05-06T12:00:00Z')
const tenantId = someTenantId()

async function queue(
  agoDays: number,
  eventDays: number,
  more: { lease?: string; leasedUntil?: string } = {},
) {
  const id = createEventId(nowMs - agoDays * dayMs, eventDays)
  await lab.pool.query(
    `INSERT INTO deliveries_due
       (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at, lease, leased_until)
     VALUES ($1, 'callback', $2, $3, $3, 1, 1, 'infinity', $4, $5)`,
    [id, tenantId, expiryDayOf(id), more.lease ?? null, more.leasedUntil ?? '-infinity'],
  )
  return id
}

async function queuedIds(): Promise<string[]> {
  const { rows } = await lab.pool.query<{ event_id: string }>(
    'SELECT event_id FROM deliveries_due ORDER BY 1',
  )
  return rows.map(({ event_id }) => event_id)
}

test('queue expiry: a waiting delivery is removed on the day its event expires and not earlier', async () => {
  const kept = [await queue(90, 90), await queue(2, 2), await queue(1, 1), await queue(0, 1)]
  for (const [agoDays, eventDays] of [
    [91, 90],
    [3, 2],
    [2, 1],
    [200, 90],
  ] as const)
    await queue(agoDays, eventDays)
  expect(await createQueueExpiry().removeBatch(lab.pool, nowMs)).toEqual({ removed: 4, hasMore: false })
  expect(await queuedIds()).toEqual(kept.toSorted())
  expect(await createQueueExpiry().removeBatch(lab.pool, nowMs)).toEqual({ removed: 0, hasMore: false })
})

test('queue expiry: a delivery under a lease is kept until the lease expires', async () => {
  await queue(3, 1, { lease: 'ended', leasedUntil: '-infinity' })
  const sent = await queue(3, 1, { lease: 'live', leasedUntil: 'infinity' })
  expect(await createQueueExpiry().removeBatch(lab.pool, nowMs)).toEqual({ removed: 1, hasMore: false })
  expect(await queuedIds()).toEqual([sent])
})

test('queue expiry: skips a locked row', async () => {
  const held = await queue(3, 1)
  await queue(3, 1)
  const client = await lab.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('SELECT FROM deliveries_due WHERE event_id = $1 FOR UPDATE', [held])
    expect(await createQueueExpiry().removeBatch(lab.pool, nowMs)).toEqual({ removed: 1, hasMore: false })
    await client.query('ROLLBACK')
  } finally {
    client.release()
  }
  expect(await queuedIds()).toEqual([held])
})

test('queue expiry: examines a long queue to its end in bounded steps', async () => {
  await pile(tenantId, 7_000, nowMs - 80 * dayMs, dayAfter(nowMs, 10))
  await pile(tenantId, 5_500, nowMs - 70 * dayMs, '2031-05-06')
  const expiry = createQueueExpiry()
  expect(await expiry.removeBatch(lab.pool, nowMs)).toEqual({ removed: 0, hasMore: true })
  expect(await expiry.removeBatch(lab.pool, nowMs)).toEqual({ removed: 3_000, hasMore: true })
  expect(await expiry.removeBatch(lab.pool, nowMs)).toEqual({ removed: 2_500, hasMore: false })
  expect(await queuedIds()).toHaveLength(7_000)
  await pile(tenantId, 1, nowMs - 90 * dayMs, '2031-05-06')
  expect(await expiry.removeBatch(lab.pool, nowMs)).toEqual({ removed: 1, hasMore: true })
})

async function pile(owner: TenantId, count: number, receivedMs: number, expiresOn: string): Promise<void> {
  await lab.pool.query(
    `INSERT INTO deliveries_due (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
     SELECT substr($1, 1, 16) || lpad(nth::text, 14, '0'), 'callback', $2, $3::date, $3::date, 1, 1, now() FROM generate_series(1, $4) nth`,
    [lowestIdOf(receivedMs), owner, expiresOn, count],
  )
}

const day = '2031-05-06'
const overMs = Date.parse(`${day}T01:00:00Z`)

async function fill(expiresOn: string, count: number): Promise<void> {
  await lab.pool.query(
    `INSERT INTO dedupe_keys SELECT md5($1 || nth)::uuid, 'evt_' || nth, $1::date FROM generate_series(1, $2) nth`,
    [expiresOn, count],
  )
}

const daysLeft = async () =>
  (await lab.pool.query(`SELECT expires_on::text AS day, count(*) FROM dedupe_keys GROUP BY 1 ORDER BY 1`))
    .rows

test('forgetDedupeKeys: removes expired keys on their day, 5 000 per call', async () => {
  await fill('2031-05-05', 10)
  await fill(day, 6_000)
  await fill('2031-05-07', 20)
  expect(await forgetDedupeKeys(lab.pool, overMs - 1)).toEqual({ removed: 10, hasMore: false })
  expect(await forgetDedupeKeys(lab.pool, overMs)).toEqual({ removed: 5_000, hasMore: true })
  expect(await forgetDedupeKeys(lab.pool, overMs)).toEqual({ removed: 1_000, hasMore: false })
  expect(await daysLeft()).toEqual([{ day: '2031-05-07', count: 20 }])
})

test('forgetDedupeKeys: concurrent calls remove each key once without waiting', async () => {
  await fill(day, 12_000)
  let removed = 0
  for (let turn = 0; turn < 2; turn += 1) {
    const both = await Promise.all([forgetDedupeKeys(lab.pool, overMs), forgetDedupeKeys(lab.pool, overMs)])
    removed += both.reduce((sum, one) => sum + one.removed, 0)
  }
  expect(removed).toBe(12_000)
  await fill(day, 3)
  const client = await lab.pool.connect()
  try {
    await client.query('BEGIN')
    await client.query('SELECT FROM dedupe_keys LIMIT 1 FOR UPDATE')
    expect(await forgetDedupeKeys(lab.pool, overMs)).toEqual({ removed: 2, hasMore: false })
    await client.query('ROLLBACK')
  } finally {
    client.release()
  }
})

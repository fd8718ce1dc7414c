import { beforeAll, describe, expect, test } from 'bun:test'
import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { listFailedEvents } from '#test/support/events/failed-events.ts'
import { blocksOf, explained, nodesOf, type PlanNode } from '#test/support/stores/explained.ts'
import { openPlanDatabase } from '#test/support/stores/plan-database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import type { StatusFilter } from './last-attempt.ts'
import { scanEvents } from './list.ts'
import { type EventFilter, rangeOf } from './list-source.ts'

const dayMs = 86_400_000
const nowMs = Date.now()
const perDay = 2_300
const days = 89
const [large, small, short] = [someTenantId(), someTenantId(), someTenantId()]

let pool: Pool
beforeAll(async () => {
  const database = await openPlanDatabase()
  pool = database.pool
  await fill()
  return () => database.close()
}, 120_000)

/**
 * 200 000 events of 89 days: nearly all of one large tenant and processed, of four types and two providers. Few are of a small
 * tenant, of a rare type, of a third provider, failed, or waiting. A third tenant keeps its events for 30 days.
 */
async function fill(): Promise<void> {
  await pool.query(`DO $$ DECLARE d date; BEGIN
    FOR i IN 1..93 LOOP
      d := current_date + i;
      EXECUTE format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + 1);
      EXECUTE format('CREATE TABLE attempts_%s PARTITION OF attempts FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + 1);
    END LOOP; END $$`)
  for (let ago = 0; ago < days; ago += 1) {
    const receivedMs = nowMs - ago * dayMs
    await fillDay(receivedMs, 90, large, perDay)
    await fillDay(receivedMs, 90, small, ago % 9 === 0 ? 1 : 0)
    if (ago < 30) await fillDay(receivedMs, 30, short, 20)
  }
  await pool.query(
    `INSERT INTO attempts SELECT id, 'callback', expires_on, 1, nth, now(), 20, 'delivered', CASE state WHEN 'processed' THEN 200 ELSE 500 END
     FROM events CROSS JOIN LATERAL generate_series(1, CASE state WHEN 'processed' THEN 1 ELSE 10 END) nth`,
  )
  await listFailedEvents(pool)
}

async function fillDay(receivedMs: number, eventDays: number, tenantId: TenantId, count: number) {
  await pool.query(
    `INSERT INTO events SELECT $1 || lpad(to_hex(i), 13, '0'), $2, $3, CASE WHEN i % 2000 = 7 THEN 'wallet' WHEN i % 2 = 0 THEN 'card'
       ELSE 'generic' END, 's' || i, 'raw', CASE WHEN i % 2000 = 11 THEN 'chargeback.lost' ELSE 'order.t' || i % 4 END,
       now(), now(), '{}', 10, $2, CASE WHEN i % 2000 = 13 THEN 'delivery_failed' ELSE 'processed' END, 1, now()
     FROM generate_series(1, $4::integer) i`,
    [createEventId(receivedMs, eventDays).slice(0, 17), dayAfter(receivedMs, eventDays), tenantId, count],
  )
}

/** Returns the number of events on a page and the plans of its statements. */
async function page(filter: EventFilter): Promise<{ plans: PlanNode[]; count: number }> {
  const range = rangeOf(filter, nowMs)
  const scan = { filter, range, order: 'newest', rowsMax: 50, examinedMax: 2_000 } as const
  const client = await pool.connect()
  try {
    const { events } = await scanEvents(client, scan)
    // A page that is not full also prepares the statement that finds the last candidate.
    await scanEvents(client, { ...scan, rowsMax: 5_000 })
    return { count: events.length, plans: await explained(client, (spy) => scanEvents(spy, scan)) }
  } finally {
    client.release()
  }
}

const cases: readonly (readonly [what: string, filter: EventFilter, found: number, blocksMax: number])[] = [
  ['nothing', {}, 50, 500],
  ['a large tenant', { tenantId: large }, 50, 600],
  ['a small tenant', { tenantId: small }, 10, 600],
  ['a tenant that keeps its events for fewer days', { tenantId: short }, 50, 600],
  ['a type', { type: 'order.t1' }, 50, 600],
  ['a rare type', { type: 'chargeback.lost' }, 50, 900],
  ['a rare type of a tenant', { tenantId: large, type: 'chargeback.lost' }, 50, 900],
  ['a type that a tenant never had', { tenantId: small, type: 'chargeback.lost' }, 0, 600],
  ['a rare provider', { provider: 'wallet' }, 50, 900],
  ['a rare provider of a tenant', { tenantId: large, provider: 'wallet' }, 50, 900],
  ['failed', { state: 'delivery_failed' }, 50, 200],
  ['failed, of a tenant', { tenantId: large, state: 'delivery_failed' }, 50, 200],
  ['failed, of a provider', { provider: 'card', state: 'delivery_failed' }, 0, 300],
  [
    'failed, of a tenant and a type',
    { tenantId: large, type: 'order.t1', state: 'delivery_failed' },
    50,
    300,
  ],
  ['failed, of a tenant that has none', { tenantId: small, state: 'delivery_failed' }, 0, 100],
  ['waiting', { state: 'accepted' }, 0, 600],
  ['waiting, of a tenant', { tenantId: large, state: 'accepted' }, 0, 600],
  ['processed', { state: 'processed' }, 50, 600],
  [
    'processed, of a type and provider',
    { state: 'processed', type: 'order.t1', provider: 'generic' },
    50,
    600,
  ],
  ['of a type and a provider that do not meet', { type: 'order.t1', provider: 'card' }, 0, 7_000],
  ['processed, of an origin', { state: 'processed', origin: 'provider' }, 50, 600],
  ['an origin that no event has', { origin: 'test' }, 0, 7_000],
  ['an origin that a tenant’s events do not have', { tenantId: large, origin: 'service' }, 0, 7_000],
  ['failed, of an origin', { origin: 'provider', state: 'delivery_failed' }, 50, 200],
  ['failed, of an origin that no event has', { origin: 'simulation', state: 'delivery_failed' }, 0, 300],
  ['a family of types', { type: 'order.*' }, 50, 600],
  ['a family of a tenant', { tenantId: large, type: 'order.*' }, 50, 600],
  ['a family that no event belongs to', { type: 'refund.*' }, 0, 7_000],
  ['a status that failed', { status: '5xx' as StatusFilter }, 50, 900],
  ['a status that failed, of a tenant', { tenantId: large, status: '500' as StatusFilter }, 50, 900],
  ['a status that no event has', { status: 'none' as StatusFilter }, 0, 2_000],
  ['a status that no failed event has', { state: 'delivery_failed', status: '404' as StatusFilter }, 0, 900],
  ['a status of a success', { tenantId: large, status: '2xx' as StatusFilter }, 50, 900],
  ['a success that no event has', { status: '202' as StatusFilter }, 0, 15_000],
  ['slow attempts', { slowerThanMs: 10 }, 50, 900],
  ['slower attempts than any', { tenantId: large, slowerThanMs: 30 }, 0, 15_000],
  ['a day long ago', { fromMs: nowMs - 80 * dayMs, toMs: nowMs - 79 * dayMs, tenantId: large }, 50, 600],
]

describe.each(['before ANALYZE', 'after ANALYZE'])('event lists: plans with 200 000 events, %s', (when) => {
  beforeAll(async () => {
    if (when === 'after ANALYZE') await pool.query('VACUUM ANALYZE events, failed_deliveries, attempts')
  }, 120_000)

  test.each(cases)(
    'event lists: a page filtered by %s uses indexes only and reads few blocks',
    async (_what, filter, found, blocksMax) => {
      const { plans, count } = await page(filter)
      expect(count).toBe(found)
      const nodes = plans.flatMap(nodesOf)
      const whole = nodes.filter((node) => /Seq Scan|Bitmap/.test(node['Node Type']))
      expect(whole.map((node) => [node['Node Type'], node['Relation Name']])).toEqual([])
      expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(2_000)
      expect(Math.max(...plans.map(blocksOf))).toBeLessThanOrEqual(blocksMax)
    },
  )

  test('event lists: failed events of a tenant are read from their index alone', async () => {
    const { plans } = await page({ tenantId: large, provider: 'generic', state: 'delivery_failed' })
    const scans = plans.flatMap(nodesOf).filter((node) => node['Relation Name'] === 'failed_deliveries')
    expect(scans.map((node) => node['Node Type'])).toEqual(['Index Only Scan'])
    if (when === 'after ANALYZE') expect(scans.map((node) => node['Heap Fetches'])).toEqual([0])
  })
})

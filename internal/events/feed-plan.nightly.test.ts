import { beforeAll, describe, expect, test } from 'bun:test'
import { createEventId, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { blocksOf, explained, nodesOf, type PlanNode } from '#test/support/stores/explained.ts'
import { openPlanDatabase } from '#test/support/stores/plan-database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { processAcknowledged } from './acknowledge.ts'
import { type FeedPosition, feedStart, readFeed } from './feed.ts'
import { findFeedPositionAt } from './feed-marks.ts'
import { scanEvents } from './list.ts'
import { rangeOf } from './list-source.ts'

const dayMs = 86_400_000
const nowMs = Date.now()
const days = 60
const perDay = 1_500
const [large, small] = [someTenantId(), someTenantId()]
const all = { providers: [], types: [], receivedFrom: '' }

let pool: Pool
let middle: FeedPosition
beforeAll(async () => {
  const database = await openPlanDatabase()
  pool = database.pool
  await fill()
  middle = await findMiddle()
  return () => database.close()
}, 120_000)

/** 90 000 events of 60 days, each day in a transaction of its own; nearly all of a large tenant, all of which wait for a pull. */
async function fill(): Promise<void> {
  await pool.query(`DO $$ DECLARE d date; BEGIN
    FOR i IN 1..93 LOOP
      d := current_date + i;
      EXECUTE format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + 1);
    END LOOP; END $$`)
  for (let ago = days - 1; ago >= 0; ago -= 1) {
    await fillDay(nowMs - ago * dayMs, large, perDay)
    // One millisecond later, so that the ids differ from those above: an id consists mostly of its time.
    await fillDay(nowMs - ago * dayMs + 1, small, 1)
  }
  await pool.query('INSERT INTO pulls_due SELECT id, tenant_id, expires_on FROM events')
  await pool.query(
    `INSERT INTO feed_marks SELECT now() - n * interval '1 min', '3'::xid8 FROM generate_series(1, 130000) n`,
  )
  await pool.query('ANALYZE')
}

async function fillDay(receivedMs: number, tenantId: TenantId, count: number) {
  await pool.query(
    `INSERT INTO events SELECT $1 || lpad(to_hex(i), 13, '0'), $2, $3, 'card', 's' || i, 'raw', 'order.t' || i % 4,
       now(), now(), '{}', 10, $2, 'accepted', 1, NULL FROM generate_series(1, $4::integer) i`,
    [createEventId(receivedMs, 90).slice(0, 17), dayAfter(receivedMs, 90), tenantId, count],
  )
}

async function plansOf(work: (pool: Pool) => Promise<unknown>): Promise<PlanNode[]> {
  const client = await pool.connect()
  try {
    // Prepares the statements in the session.
    await client.query('BEGIN')
    await work(client as unknown as Pool)
    const plans = await explained(client, work)
    await client.query('ROLLBACK')
    return plans
  } finally {
    client.release()
  }
}

async function findMiddle(): Promise<FeedPosition> {
  const { rows } = await pool.query<FeedPosition>(
    `SELECT stored_by::text AS transaction, id AS "eventId" FROM events WHERE tenant_id = $1 ORDER BY stored_by, id OFFSET $2 LIMIT 1`,
    [large, (days / 2) * perDay],
  )
  const [row] = rows
  if (!row) throw new Error('no events')
  return row
}

/** Returns the position of the 1 000th event after the middle. */
const endOfMiddle = (): FeedPosition => ({
  ...middle,
  eventId: `${middle.eventId.slice(0, 17)}${(1_001).toString(16).padStart(13, '0')}`,
})

describe('plans beside 90 000 events of one tenant', () => {
  test.each<[string, (pool: Pool) => Promise<unknown>, number]>([
    [
      'readFeed: in the middle',
      (of) => readFeed(of, { tenantId: large, filter: all, after: middle, limit: 100 }, nowMs),
      1_600,
    ],
    [
      'processAcknowledged: a range in the middle',
      (of) => {
        const range = { tenantId: large, filter: all, after: middle, upTo: endOfMiddle(), hasCallback: false }
        return processAcknowledged(of as unknown as PoolClient, range, nowMs)
      },
      3_000,
    ],
    [
      'processAcknowledged: the whole feed of a small tenant',
      (of) => {
        const upTo = { transaction: '4611686018427387904', eventId: '' }
        const range = { tenantId: small, filter: all, after: feedStart, upTo, hasCallback: true }
        return processAcknowledged(of as unknown as PoolClient, range, nowMs)
      },
      5_000,
    ],
    ['findFeedPositionAt: beside 130 000 marks', (of) => findFeedPositionAt(of, nowMs - 30 * dayMs), 10],
    [
      'scanEvents: the accepted events of all tenants',
      (of) => {
        const filter = { state: 'accepted' } as const
        const range = rangeOf(filter, nowMs)
        return scanEvents(of, { filter, range, order: 'newest', rowsMax: 50, examinedMax: 1_000 })
      },
      2_000,
    ],
    [
      'scanEvents: the accepted events of a small tenant',
      (of) => {
        const filter = { state: 'accepted', tenantId: small } as const
        const range = rangeOf(filter, nowMs)
        return scanEvents(of, { filter, range, order: 'newest', rowsMax: 50, examinedMax: 1_000 })
      },
      1_000,
    ],
  ])('%s reads only indexes', async (_name, work, blocksMax) => {
    const plans = await plansOf(work)
    const nodes = plans.flatMap(nodesOf)
    const whole = nodes.filter((node) => /Seq Scan|Bitmap/.test(node['Node Type']))
    expect(whole.map((node) => [node['Node Type'], node['Relation Name']])).toEqual([])
    expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBeLessThanOrEqual(1_001)
    expect(Math.max(...plans.map(blocksOf))).toBeLessThanOrEqual(blocksMax)
  })
  test('processAcknowledged: finds 1 000 events of one day by their keys', async () => {
    const range = { tenantId: large, filter: all, after: middle, upTo: endOfMiddle(), hasCallback: false }
    const client = await pool.connect()
    try {
      await client.query('BEGIN')
      await processAcknowledged(client, range, nowMs)
      const { rows } = await client.query<{ name: string }>(
        'SELECT name FROM pg_prepared_statements WHERE name = $1',
        [`process_acknowledged_${expiryDayOf(middle.eventId as EventId)}`],
      )
      expect(rows).toHaveLength(1)
      await client.query('ROLLBACK')
      await client.query('BEGIN')
      const ids = Array.from(
        { length: 1_000 },
        (_none, at) => `${middle.eventId.slice(0, 17)}${(at + 1).toString(16).padStart(13, '0')}`,
      )
      const statement = { name: rows[0]?.name ?? '', text: '', values: [textArrayParam(ids), false] }
      const plans = await explained(client, (of) => of.query(statement))
      await client.query('ROLLBACK')
      const nodes = plans.flatMap(nodesOf)
      expect(nodes.filter((node) => /Seq Scan|Bitmap/.test(node['Node Type']))).toEqual([])
      expect(nodes.filter((node) => node['Actual Rows'] > 1_000)).toEqual([])
    } finally {
      client.release()
    }
  })
})

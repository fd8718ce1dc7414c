import { beforeAll, describe, expect, test } from 'bun:test'
import { createEventId, dayAfter, type EventId } from '#internal/base/index.ts'
import { readEventStates } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { blocksOf, explained, nodesOf, type PlanNode } from '#test/support/stores/explained.ts'
import { openPlanDatabase } from '#test/support/stores/plan-database.ts'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { createReplayId, type ReplayId } from './job.ts'
import { findReplaysOfEvent, readReplayOutcome } from './outcome.ts'

const dayMs = 86_400_000
const nowMs = Date.now()
const days = 89
const perDay = 2_000
const tenantId = someTenantId()
const replayIds = Array.from({ length: 60 }, (_each, nth) => createReplayId(nowMs + nth))
const latest = replayIds.at(-1) as ReplayId

let pool: Pool
let ids: EventId[]
beforeAll(async () => {
  const database = await openPlanDatabase()
  pool = database.pool
  await fill()
  return () => database.close()
}, 120_000)

/** 178 000 events of 89 days, and 60 replays that queued the same 1 000 of them, of all days. */
async function fill(): Promise<void> {
  await pool.query(`DO $$ DECLARE d date; BEGIN
    FOR i IN 1..93 LOOP
      d := current_date + i;
      EXECUTE format('CREATE TABLE events_%s PARTITION OF events FOR VALUES FROM (%L) TO (%L)', to_char(d, 'YYYYMMDD'), d, d + 1);
    END LOOP; END $$`)
  for (let ago = 0; ago < days; ago += 1) {
    const receivedMs = nowMs - ago * dayMs
    await pool.query(
      `INSERT INTO events SELECT $1 || lpad(to_hex(i), 13, '0'), $2, $3, 'card', 's' || i, 'raw', 'order.paid', now(), now(), '{}', 10, $2,
         CASE WHEN i % 3 = 0 THEN 'delivery_failed' ELSE 'processed' END, 2, now()
       FROM generate_series(1, $4::integer) i`,
      [createEventId(receivedMs, 90).slice(0, 17), dayAfter(receivedMs, 90), tenantId, perDay],
    )
  }
  const { rows } = await pool.query<{ id: EventId }>('SELECT id FROM events ORDER BY md5(id) LIMIT 1000')
  ids = rows.map(({ id }) => id)
  await pool.query(
    `INSERT INTO replays (id, idempotency_key, tenant_id, filter, rate_per_second, requested_by, state, total_count, total_is_exact, ends_before,
       queued_count, queued, created_at, ended_at, next_step_at)
     SELECT id, id, $2, '{}', 50, 'ann', 'completed', 1000, true, 'evt_z', 1000, $3::text[], now(), now(), now() FROM unnest($1::text[]) id`,
    [replayIds, tenantId, ids.map((id) => `${id}:2`)],
  )
}

async function plansOf(work: (pool: Pool) => Promise<unknown>): Promise<PlanNode[]> {
  const client = await pool.connect()
  try {
    await work(client as unknown as Pool)
    return await explained(client, work)
  } finally {
    client.release()
  }
}

describe.each(['before ANALYZE', 'after ANALYZE'])(
  'replay outcomes: plans with 178 000 events, %s',
  (when) => {
    beforeAll(async () => {
      if (when === 'after ANALYZE') await pool.query('VACUUM ANALYZE events, replays')
    }, 120_000)

    test('replay outcome: 1 000 events of 89 days are read by their keys, each in one partition', async () => {
      const statements: { text: string; values: unknown[] }[] = []
      const spy = {
        query: async (text: string, values: unknown[]) => (statements.push({ text, values }), { rows: [] }),
      }
      await readEventStates(spy as unknown as Pool, ids, nowMs)
      expect(statements).toHaveLength(1)
      const { rows } = await pool.query<{ 'QUERY PLAN': readonly { Plan: PlanNode }[] }>(
        `EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) ${statements[0]?.text}`,
        statements[0]?.values,
      )
      const plans = rows.flatMap((row) => row['QUERY PLAN'].map(({ Plan }) => Plan))
      const nodes = plans.flatMap(nodesOf)
      expect(
        nodes.filter(
          (node) => /Seq Scan|Bitmap/.test(node['Node Type']) && node['Relation Name'] !== undefined,
        ),
      ).toEqual([])
      expect(Math.max(...plans.map(blocksOf))).toBeLessThanOrEqual(4_000)
    })

    test('replay outcome: all events are counted by two statements', async () => {
      let statements = 0
      const spy = {
        query: (...asked: Parameters<Pool['query']>) => {
          statements += 1
          return pool.query(...asked)
        },
      }
      const outcome = await readReplayOutcome(spy as unknown as Pool, latest, nowMs)
      expect(outcome).toMatchObject({ examinedCount: 1_000, pendingCount: 0, otherCount: 0 })
      expect(statements).toBe(2)
    })

    test('replays of an event: the latest 50 of its tenant are searched through their index', async () => {
      const [id] = ids as [EventId]
      const asked = { id, tenantId, isWide: true }
      expect(await findReplaysOfEvent(pool, asked)).toEqual(new Map([[2, expect.any(String)]]))
      const plans = await plansOf((connection) => findReplaysOfEvent(connection, asked))
      const nodes = plans.flatMap(nodesOf).filter((node) => node['Relation Name'] === 'replays')
      expect(nodes.map((node) => node['Node Type'])).toEqual(['Index Scan', 'Index Scan'])
      expect(Math.max(...nodes.map((node) => node['Actual Rows']))).toBe(50)
    })
  },
)

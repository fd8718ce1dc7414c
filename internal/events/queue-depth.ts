import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { PausedForwarding } from './paused-forwarding.ts'

/** What waits to be delivered and could be. Suspended callbacks, open breakers and what is paused are left out: more processes would not help. */
export interface QueueDepth {
  /** Due deliveries: counted up to 10 000, estimated beyond. */
  readonly dueCount: number
  /** How long the one that is due longest has been so; 0 when none is. */
  readonly oldestAgeMs: number
  readonly suspendedCount: number
  readonly openBreakerCount: number
}

const countedMax = 10_000
const queuesMax = 1_000

// A read, no locks. Its work is bounded whatever waits: at most 1 000 tenant queues, two probes each for the oldest, 10 001 rows counted,
// and a step for each one under a lease; past that the table's own estimate speaks, which autovacuum keeps.
const depthText = `
WITH open_queues AS MATERIALIZED (
  SELECT tenant_id FROM tenant_queues
  WHERE next_due_at <= now() AND suspended_at IS NULL AND breaker_until <= now()
    AND NOT $1::boolean AND tenant_id <> ALL($2::text[]) ORDER BY next_due_at LIMIT ${queuesMax}
), kinds AS (
  SELECT tenant_id, is_retry FROM open_queues CROSS JOIN (VALUES (true), (false)) k(is_retry)
), counted AS (
  SELECT count(*) AS due FROM (
    SELECT FROM kinds k CROSS JOIN LATERAL (
      SELECT FROM deliveries_due WHERE tenant_id = k.tenant_id AND is_retry = k.is_retry
        AND due_at <= now() AND leased_until <= now()
      LIMIT ${countedMax + 1}) d
    LIMIT ${countedMax + 1}) all_due
), oldest AS (
  SELECT min((SELECT due_at FROM deliveries_due
    WHERE tenant_id = k.tenant_id AND is_retry = k.is_retry AND due_at <= now() AND leased_until <= now()
    ORDER BY due_at LIMIT 1)) AS due_at
  FROM kinds k
)
SELECT
  CASE WHEN due > ${countedMax} THEN greatest(due, (SELECT reltuples::bigint FROM pg_class WHERE oid = 'deliveries_due'::regclass))
    ELSE due END,
  coalesce(greatest(0, extract(epoch FROM now() - oldest.due_at) * 1000), 0)::bigint,
  (SELECT count(*) FROM tenant_queues WHERE suspended_at IS NOT NULL),
  (SELECT count(*) FROM tenant_queues WHERE breaker_until > now() AND suspended_at IS NULL)
FROM counted, oldest`

/** Reads how much waits, at a bounded cost. @throws what Postgres throws */
export async function readQueueDepth(
  pool: Pool,
  paused: PausedForwarding = { all: false, tenants: new Set() },
): Promise<QueueDepth> {
  const { rows } = await pool.query<[number, number, number, number]>({
    name: 'queue_depth',
    text: depthText,
    rowMode: 'array',
    values: [paused.all, textArrayParam([...paused.tenants])],
  })
  const [dueCount = 0, oldestAgeMs = 0, suspendedCount = 0, openBreakerCount = 0] = rows[0] ?? []
  return { dueCount, oldestAgeMs, suspendedCount, openBreakerCount }
}

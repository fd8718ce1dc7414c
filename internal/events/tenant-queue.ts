import { and, eq, gt, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import {
  callbackQueueOf,
  carriesEventsText,
  type DestinationKey,
  isCallbackText,
  isInQueueText,
  type QueueId,
  queueIdOf,
  queueIdText,
} from './model.ts'
import { tenantQueues } from './tables.ts'

/** `gone`: the callback responded 410 Gone. `disabled`: it asked for no more deliveries. */
export const suspendedCauses = ['gone', 'disabled'] as const
/** Reason for a suspension. */
export type SuspendedCause = (typeof suspendedCauses)[number]

/** Tenants whose deliveries the platform has paused. */
export interface PausedForwarding {
  readonly all: boolean
  readonly tenants: ReadonlySet<TenantId>
}

/** Delay before the next probe, after a probe that was not sent. */
const probeAgainMs = 1_000
const { breakerUntil } = tenantQueues
const closed = sql`'-infinity'`

// The following functions each change one row of tenant_queues by its key. Claims lock such a row only briefly.

// The same statement records the suspension of a callback for its owner's notification; see `destination-alerts.ts`.
const suspendText = `
WITH suspended AS (
  UPDATE tenant_queues SET suspended_at = now(), suspended_cause = $2
  WHERE tenant_id = $1 AND destination = $4 AND suspended_at IS NULL RETURNING tenant_id, destination
), noted AS (
  INSERT INTO destination_alerts AS a (tenant_id, destination, is_suspended, since, failures, cause, last_failure_at, check_at)
  SELECT tenant_id, destination, true, $3, 1, $2, $3, $3 FROM suspended WHERE ${carriesEventsText}
  ON CONFLICT (tenant_id, destination) DO UPDATE SET is_suspended = true, cause = $2, last_failure_at = $3, check_at = $3,
    failures = a.failures + 1, since = CASE WHEN a.open IS NULL THEN $3 ELSE a.since END
)
SELECT FROM suspended`

/**
 * Suspends the deliveries of a tenant queue. Events are still accepted and stay queued. The owner of a callback is notified later. Safe to
 * repeat: the first cause is kept.
 * @returns whether this call suspended the queue
 */
export async function suspendQueue(
  pool: Pool,
  { tenantId, destination }: DestinationKey,
  { cause, nowMs }: { readonly cause: SuspendedCause; readonly nowMs: number },
): Promise<boolean> {
  const { rowCount } = await pool.query({
    text: suspendText,
    values: [tenantId, cause, new Date(nowMs), destination],
  })
  return rowCount === 1
}

const resumeText = `
WITH resumed AS (
  UPDATE tenant_queues SET suspended_at = NULL, suspended_cause = NULL, breaker_until = now(), next_due_at = now(), idle_checks = 0
  WHERE tenant_id = $1 AND suspended_at IS NOT NULL RETURNING tenant_id, destination
), noted AS (
  UPDATE destination_alerts SET is_suspended = false, check_at = now()
  WHERE (tenant_id, destination) IN (SELECT tenant_id, destination FROM resumed)
)
SELECT ${queueIdText()} AS "queueId" FROM resumed`

/**
 * Resumes the suspended deliveries of a tenant, to all of its destinations. Their circuit breakers are half-open: one delivery
 * is sent first, and the others wait for its success, so that a receiver that still answers 410 ends one event and not all. Call
 * `notifyForwarders` with the returned queues afterwards. Safe to repeat.
 * @returns the tenant queues that were suspended
 */
export async function resumeQueues(connection: Pool | PoolClient, tenantId: TenantId): Promise<QueueId[]> {
  const { rows } = await connection.query<{ queueId: QueueId }>(resumeText, [tenantId])
  return rows.map(({ queueId }) => queueId)
}

/** Counts deliveries that are due before a time and not claimed, up to `countMax`. Uses an index. @throws errors of Postgres */
export async function countDeliveriesBefore(
  pool: Pool,
  key: DestinationKey,
  dueAtMs: number,
  countMax: number,
): Promise<number> {
  const { rows } = await pool.query<[number]>({
    text: `SELECT count(*)::integer FROM (SELECT FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
      SELECT FROM deliveries_due
      WHERE ${queueIdText()} = $1 AND is_retry = kind.is_retry AND due_at < $2 AND leased_until <= now() LIMIT $3) d
      LIMIT $3) counted`,
    values: [queueIdOf(key), new Date(dueAtMs), countMax],
    rowMode: 'array',
  })
  return rows[0]?.[0] ?? 0
}

// Locks the row before the comparison, so that only one of several concurrent calls finds the breaker closed. Keeps the later end.
const openText = `
UPDATE tenant_queues q SET breaker_until = greatest(q.breaker_until, now() + $2::integer * interval '1 ms')
FROM (SELECT tenant_id, destination, breaker_until FROM tenant_queues WHERE tenant_id = $1 AND destination = $3 FOR UPDATE) was
WHERE q.tenant_id = $1 AND q.destination = $3 AND q.tenant_id = was.tenant_id AND q.destination = was.destination
RETURNING was.breaker_until = '-infinity' AS opened`

/**
 * Opens the circuit breaker: for `openMs` no delivery is claimed, then one at a time probes the callback. Safe to repeat.
 * @returns true for the one call, over all processes, that found the breaker closed; false while the breaker is open or half-open
 */
export async function openBreaker(
  pool: Pool,
  { tenantId, destination }: DestinationKey,
  openMs: number,
): Promise<boolean> {
  const { rows } = await pool.query<{ opened: boolean }>(openText, [tenantId, openMs, destination])
  return rows[0]?.opened === true
}

/**
 * Allows another probe of a half-open circuit breaker after one second. Call it when a claimed probe was not sent. Shortens the time of an
 * open breaker. Safe to repeat.
 */
export async function releaseProbe(pool: Pool, key: DestinationKey): Promise<void> {
  const soon = sql`least(${breakerUntil}, now() + ${probeAgainMs}::integer * interval '1 ms')`
  await orm(pool)
    .update(tenantQueues)
    .set({ breakerUntil: soon })
    .where(and(isQueue(key), gt(breakerUntil, sql`now()`)))
}

function isQueue({ tenantId, destination }: DestinationKey) {
  return and(eq(tenantQueues.tenantId, tenantId), eq(tenantQueues.destination, destination))
}

/** Closes the circuit breaker, so that queued deliveries can be claimed immediately. Safe to repeat. */
export async function closeBreaker(pool: Pool, key: DestinationKey): Promise<void> {
  await orm(pool)
    .update(tenantQueues)
    .set({ breakerUntil: closed, nextDueAt: sql`least(${tenantQueues.nextDueAt}, now())`, idleChecks: 0 })
    .where(and(isQueue(key), gt(breakerUntil, closed)))
}

/**
 * Returns SQL for a WITH query. Locks rows in the order of their ids to prevent deadlocks, and only those that meet the condition.
 * @param keys SQL of a FROM clause with the columns `tenant_id` and `destination`; as `set` and `condition`, never input from outside
 */
export function updateQueuesText({
  keys,
  set,
  condition,
}: {
  readonly keys: string
  readonly set: string
  readonly condition: string
}): string {
  const isOfTenants = `tenant_id = ANY(ARRAY(SELECT tenant_id FROM ${keys}))`
  return `UPDATE tenant_queues SET ${set} WHERE ${isOfTenants} AND ${queueIdText()} = ANY(ARRAY(
    SELECT ${queueIdText()} FROM (SELECT tenant_id, destination FROM tenant_queues
      WHERE ${isOfTenants} AND ${queueIdText()} = ANY(ARRAY(SELECT ${queueIdText()} FROM ${keys})) AND (${condition})
      ORDER BY tenant_id, destination FOR UPDATE) locked))`
}

/**
 * Returns SQL that wakes tenant queues, for a WITH query after the part that makes rows due. Neither locks nor writes a queue that is due
 * and was not empty at its last check, so that busy tenants have no hot row.
 * @param keys as for `updateQueuesText`
 */
export function wakeTenantQueuesText(keys: string): string {
  return updateQueuesText({
    keys,
    set: 'next_due_at = now(), idle_checks = 0',
    condition: 'next_due_at > now() OR idle_checks > 0',
  })
}

/** Time after which an unclaimed due row counts as stalled. Longer than the 5 s within which a check that can miss rows is repeated. */
const graceMs = 8_000
const sweptMax = 100_000

// Steps from tenant queue to tenant queue through the index: three probes per queue, and one for each row whose lease expired recently.
// Skips suspended tenants and destinations, and destinations that the tenant no longer has: their queues are checked rarely on purpose.
const sweepText = `
WITH RECURSIVE waiting AS (
  (SELECT tenant_id, destination FROM deliveries_due ORDER BY ${queueIdText()} LIMIT 1)
  UNION ALL
  SELECT n.tenant_id, n.destination FROM waiting w CROSS JOIN LATERAL (
    SELECT tenant_id, destination FROM deliveries_due WHERE ${queueIdText()} > ${queueIdText('w.')}
    ORDER BY ${queueIdText()} LIMIT 1) n
), overdue AS MATERIALIZED (
  SELECT w.tenant_id, w.destination FROM (SELECT tenant_id, destination FROM waiting LIMIT ${sweptMax}) w
  WHERE EXISTS (SELECT FROM (VALUES (true), (false)) kind(is_retry) CROSS JOIN LATERAL (
    SELECT FROM deliveries_due WHERE ${isInQueueText('w.')} AND is_retry = kind.is_retry
      AND due_at < now() - $1::integer * interval '1 ms' AND leased_until < now() - $1::integer * interval '1 ms' LIMIT 1) d)
), missed AS (
  SELECT o.tenant_id, o.destination FROM overdue o
  CROSS JOIN LATERAL (SELECT FROM tenants WHERE id = o.tenant_id AND NOT suspended
    AND o.destination = ANY(destinations) AND deleted_at IS NULL OFFSET 0) t
  LEFT JOIN LATERAL (SELECT suspended_at, next_due_at FROM tenant_queues
    WHERE tenant_id = o.tenant_id AND destination = o.destination OFFSET 0) q ON true
  WHERE q.suspended_at IS NULL AND (q.next_due_at IS NULL OR q.next_due_at > now())
  ORDER BY o.tenant_id, o.destination
)
INSERT INTO tenant_queues AS q (tenant_id, destination, next_due_at) SELECT tenant_id, destination, now() FROM missed
ON CONFLICT (tenant_id, destination) DO UPDATE SET next_due_at = now(), idle_checks = 0 WHERE q.next_due_at > now()
RETURNING tenant_id`

/**
 * Wakes stalled tenant queues and returns their number. A number above 0 indicates a fault elsewhere. Safe to repeat, in any process.
 * @param overdueMs minimum time for which a row has been due; default 8 s
 */
export async function sweepTenantQueues(pool: Pool, overdueMs = graceMs): Promise<number> {
  const { rowCount } = await pool.query({ name: 'sweep_tenant_queues', text: sweepText, values: [overdueMs] })
  return rowCount ?? 0
}

/**
 * Returns whether a callback has at least `count` due retries and replays. Reads at most `count` rows, plus one per row under a lease.
 * @throws errors of Postgres
 */
export async function hasDueRetries(
  connection: Pick<Pool | PoolClient, 'query'>,
  tenantId: TenantId,
  count: number,
): Promise<boolean> {
  const { rows } = await connection.query<[number]>({
    text: `SELECT count(*) FROM (SELECT FROM deliveries_due WHERE ${queueIdText()} = $1 AND is_retry AND due_at <= now()
      AND leased_until <= now() LIMIT $2) q`,
    rowMode: 'array',
    values: [callbackQueueOf(tenantId), count],
  })
  return (rows[0]?.[0] ?? 0) >= count
}

/** Depth of the queue. Excludes suspended callbacks, open breakers and paused tenants. */
export interface QueueDepth {
  /** Number of due deliveries: exact up to 10 000, estimated above. */
  readonly dueCount: number
  /** Age of the delivery that has been due the longest; 0 if no delivery is due. */
  readonly oldestAgeMs: number
  readonly suspendedCount: number
  readonly openBreakerCount: number
}

const countedMax = 10_000
const openQueuesMax = 1_000

// Takes no locks. The cost is limited for any queue: 1 000 tenant queues, two index probes for the oldest row of each, 10 001 counted rows,
// and one step for each row under a lease. Above 10 000 due rows it returns the estimate that autovacuum maintains for the table.
const depthText = `
WITH open_queues AS MATERIALIZED (
  SELECT tenant_id, destination FROM tenant_queues
  WHERE next_due_at <= now() AND suspended_at IS NULL AND breaker_until <= now()
    AND NOT $1::boolean AND (tenant_id <> ALL($2::text[]) OR NOT ${carriesEventsText}) ORDER BY next_due_at LIMIT ${openQueuesMax}
), kinds AS (
  SELECT tenant_id, destination, is_retry FROM open_queues CROSS JOIN (VALUES (true), (false)) k(is_retry)
), counted AS (
  SELECT count(*) AS due FROM (
    SELECT FROM kinds k CROSS JOIN LATERAL (
      SELECT FROM deliveries_due WHERE ${isInQueueText('k.')} AND is_retry = k.is_retry
        AND due_at <= now() AND leased_until <= now()
      LIMIT ${countedMax + 1}) d
    LIMIT ${countedMax + 1}) all_due
), oldest AS (
  SELECT min((SELECT due_at FROM deliveries_due
    WHERE ${isInQueueText('k.')} AND is_retry = k.is_retry AND due_at <= now() AND leased_until <= now()
    ORDER BY due_at LIMIT 1)) AS due_at
  FROM kinds k
)
SELECT
  CASE WHEN due > ${countedMax} THEN greatest(due, (SELECT reltuples::bigint FROM pg_class WHERE oid = 'deliveries_due'::regclass))
    ELSE due END,
  coalesce(greatest(0, extract(epoch FROM now() - oldest.due_at) * 1000), 0)::bigint,
  (SELECT count(*) FROM tenant_queues WHERE suspended_at IS NOT NULL AND ${isCallbackText}),
  (SELECT count(*) FROM tenant_queues WHERE breaker_until > now() AND suspended_at IS NULL AND ${isCallbackText})
FROM counted, oldest`

/** Reads the depth of the queue at a limited cost. @throws errors of Postgres */
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

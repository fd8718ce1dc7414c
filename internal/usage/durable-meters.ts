import { createHash } from 'node:crypto'
import type { TenantId } from '#internal/base/index.ts'
import {
  classifySqlError,
  ensurePartitions,
  missingRecordPartitions,
  type Pool,
  type PoolClient,
  type RemovedRows,
} from '#internal/storage/index.ts'
import type { RecordDurability } from '#internal/tenants/index.ts'
import type { MeterWindows, WindowCount } from './reading.ts'

/** Meters of a tenant in Postgres, and the stores of its records. Times are by Postgres' clock. */
export interface DurableReading {
  readonly nowMs: number
  /** Store of new records and locks. */
  readonly store: RecordDurability
  /** Store that may still have earlier records and locks. */
  readonly before: RecordDurability | null
  /** Number of moves between the stores. */
  readonly generation: number
  /** Bytes of unexpired records and locks. */
  readonly recordBytes: number
  /** Undefined if no lock was counted. */
  readonly locks: MeterWindows | undefined
}

const minuteMs = 60_000
const hoursKept = 48

/** Reads meters in Postgres, one reading per tenant. Bytes of expired entries do not count, even before a batch subtracts them. */
export async function readDurableMeters(
  connection: Pool | PoolClient,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, DurableReading>> {
  const { rows } = await connection.query<RawReading>({
    name: 'usage-read-durable',
    text: `SELECT u.id, clock.ms AS "nowMs", coalesce(t.record_store, 'redis') AS store, t.record_store_before AS before,
             coalesce(t.record_store_generation, 0) AS generation, last.minute, last.month,
             (last.bytes - ended.bytes)::float8 AS "recordBytes", counts.of
           FROM unnest($1::text[]) AS u (id) LEFT JOIN tenants AS t ON t.id = u.id
           CROSS JOIN (SELECT record_clock() / 1000 AS ms) AS clock
           CROSS JOIN LATERAL (
             SELECT max(minute) AS minute, max(month) AS month, coalesce(sum(bytes), 0) AS bytes FROM record_meters WHERE tenant_id = u.id
           ) AS last
           CROSS JOIN LATERAL (
             SELECT coalesce(sum(bytes), 0) AS bytes FROM record_bytes WHERE tenant_id = u.id AND until <= clock.ms / 60000
           ) AS ended
           CROSS JOIN LATERAL (
             SELECT ARRAY[
               sum(minute_locks) FILTER (WHERE minute = last.minute),
               coalesce(sum(minute_locks) FILTER (WHERE minute = last.minute - 1), 0)
                 + sum(minute_before_locks) FILTER (WHERE minute = last.minute),
               sum(month_locks) FILTER (WHERE month = last.month) + max(month_others) FILTER (WHERE month = last.month),
               coalesce(sum(month_locks) FILTER (WHERE month = last.month - 1), 0)
                 + sum(month_before_locks) FILTER (WHERE month = last.month)
             ]::float8[] AS of FROM record_meters WHERE tenant_id = u.id
           ) AS counts`,
    values: [tenants],
  })
  return new Map(rows.map((row) => [row.id, toReading(row)]))
}

interface RawReading extends Omit<DurableReading, 'locks'> {
  readonly id: TenantId
  readonly minute: number | null
  /** Months since January 1970. */
  readonly month: number | null
  readonly of: readonly number[]
}

function toReading({ id: _id, minute, month, of, ...rest }: RawReading): DurableReading {
  if (minute === null || month === null) return { ...rest, locks: undefined }
  const [minuteLocks = 0, minuteBefore = 0, monthLocks = 0, monthBefore = 0] = of
  const locks: MeterWindows = {
    minutes: [minuteOf(minute, minuteLocks), minuteOf(minute - 1, minuteBefore)],
    months: [monthOf(month, monthLocks), monthOf(month - 1, monthBefore)],
  }
  return { ...rest, locks }
}

function minuteOf(minute: number, count: number): WindowCount {
  return { startMs: minute * minuteMs, endMs: (minute + 1) * minuteMs, count }
}

function monthOf(month: number, count: number): WindowCount {
  return { startMs: Date.UTC(1970, month), endMs: Date.UTC(1970, month + 1), count }
}

/** Returns the id of an entry in `record_entries`: 16 bytes in hex. The first four are the tenant's. */
export function recordEntryId(tenantId: TenantId, entry: string): string {
  return `${tenantBytes(tenantId)}${createHash('sha256').update(entry).digest('hex').slice(0, 24)}`
}

/** Returns the lowest and the highest id that an entry of a tenant can have. Other tenants can have ids between them. */
export function recordEntryIds(tenantId: TenantId): readonly [first: string, last: string] {
  const bytes = tenantBytes(tenantId)
  return [`${bytes}${'0'.repeat(24)}`, `${bytes}${'f'.repeat(24)}`]
}

/** Returns the bytes that the SQL function `place_record_entry` counts for an entry without a scope and a token. */
export function countedEntryBytes(tenantId: TenantId, key: string, textBytes: number): number {
  return 256 + Buffer.byteLength(tenantId) + Buffer.byteLength(key) + textBytes
}

/** Returns the start of a tenant's entry ids. It only keeps the entries together, so FNV-1a suffices, which is faster than SHA-256. */
function tenantBytes(tenantId: TenantId): string {
  let hash = 0x811c9dc5
  for (let at = 0; at < tenantId.length; at += 1) hash = Math.imul(hash ^ tenantId.charCodeAt(at), 0x01000193)
  return (hash >>> 0).toString(16).padStart(8, '0')
}

/** Number of the row of a tenant's sums for all statements except batches of records. Batches use the rows 0 to 14. */
const otherStripe = 15

/**
 * Adds locks to the counts of acquisitions in the minute and month, without checking limits, and writes an entry in the same statement.
 * @throws if the entry exists or the tenant's records are in another store, and errors of Postgres
 */
export async function countDurableLocks(
  client: PoolClient,
  tenantId: TenantId,
  locks: {
    readonly generation: number
    /** Result of `recordEntryId`. */
    readonly entryId: string
    readonly key: string
    readonly amount: number
    readonly keptMs: number
    readonly text: string
  },
): Promise<void> {
  const kind = await runSteps(client, [tenantId], locks)
  if (kind !== 'counted') throw new Error(`cannot count locks in Postgres: ${kind}`)
}

/** Subtracts bytes of expired entries and reads the count of the month in Redis. Called once a minute; repeats change nothing. */
export async function refreshDurableMeters(
  connection: Pool | PoolClient,
  tenants: readonly TenantId[],
): Promise<void> {
  await runSteps(connection, tenants, undefined)
}

async function runSteps(
  connection: Pool | PoolClient,
  tenants: readonly TenantId[],
  locks: Parameters<typeof countDurableLocks>[2] | undefined,
): Promise<string | undefined> {
  const given = locks ? [locks] : []
  const { rows } = await connection.query<{ kind: string }>({
    name: 'usage-run-record-steps',
    text: `SELECT kind FROM run_record_steps(
             p_stripe => $1, t_id => $2, k_id => $3, k_tenant => $4, k_scope => $5, k_key => $6, s_key => $4, s_kind => $7,
             s_generation => $8, s_ttl_ms => $9, s_amount => $10, s_record => $11)`,
    values: [
      otherStripe,
      tenants.toSorted(),
      given.map(({ entryId }) => entryId),
      given.map(() => 1),
      given.map(() => ''),
      given.map(({ key }) => key),
      given.map(() => 'count'),
      given.map(({ generation }) => generation),
      given.map(({ keptMs }) => keptMs),
      given.map(({ amount }) => amount),
      given.map(({ text }) => text),
    ],
  })
  return rows[0]?.kind
}

/** Runs work that writes entries. If partitions are missing, creates them and runs the work once more. @throws the error of the work */
export async function withMissingPartitions<T>(pool: Pool, work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (classifySqlError(error).kind !== 'partition_missing') throw error
    await ensurePartitions(pool, missingRecordPartitions(error))
    return await work()
  }
}

const expiredRowsMax = 1_000
/** Minimum time since the expiry of entries whose bytes are subtracted here. The tenant's own batches subtract all other bytes. */
const silentMinutes = 60

/** Subtracts bytes of expired entries from the sums of tenants that use no records, in batches of about 1 000 rows. Idempotent. */
export async function returnExpiredBytes(pool: Pool): Promise<RemovedRows> {
  const { rows } = await pool.query<{ id: TenantId; count: number }>({
    name: 'usage-find-expired-bytes',
    text: `SELECT id, count(*)::integer AS count FROM (
             SELECT t.id FROM record_bytes AS b JOIN tenants AS t ON t.id = b.tenant_id
             WHERE b.until < (SELECT record_clock() / 60000000 - $2) AND t.deleted_at IS NULL ORDER BY b.until LIMIT $1
           ) AS expired GROUP BY id`,
    values: [expiredRowsMax, silentMinutes],
  })
  if (rows.length === 0) return { removed: 0, hasMore: false }
  await refreshDurableMeters(
    pool,
    rows.map(({ id }) => id),
  )
  const removed = rows.reduce((sum, { count }) => sum + count, 0)
  return { removed, hasMore: removed === expiredRowsMax }
}

const hourRowsMax = 1_000

/** Moves hourly counts of locks to `usage_hourly` after two days, at most 1 000 rows. Idempotent. */
export async function moveRecordHours(pool: Pool): Promise<RemovedRows> {
  const { rows } = await pool.query<{ removed: number }>({
    name: 'usage-move-hours',
    text: `WITH gone AS (
             DELETE FROM record_hours AS own USING (
               SELECT tenant_id, hour, stripe FROM record_hours
               WHERE hour < (SELECT record_clock() / 3600000000 - $2) ORDER BY hour LIMIT $1
             ) AS old WHERE (own.tenant_id, own.hour, own.stripe) = (old.tenant_id, old.hour, old.stripe)
             RETURNING own.tenant_id, own.hour, own.locks
           ), moved AS (
             INSERT INTO usage_hourly AS u (tenant_id, meter, hour, durable_amount)
             SELECT tenant_id, 'locks', to_timestamp(hour * 3600.0), sum(locks) FROM gone
             WHERE NOT EXISTS (SELECT FROM tenants WHERE id = gone.tenant_id AND deleted_at IS NOT NULL)
             GROUP BY tenant_id, hour ORDER BY tenant_id, hour
             ON CONFLICT (tenant_id, meter, hour) DO UPDATE SET durable_amount = u.durable_amount + excluded.durable_amount
           ) SELECT count(*)::integer AS removed FROM gone`,
    values: [hourRowsMax, hoursKept],
  })
  const removed = rows[0]?.removed ?? 0
  return { removed, hasMore: removed === hourRowsMax }
}

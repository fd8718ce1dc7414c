import type { Pool } from 'pg'
import type { TenantId } from '#internal/base/index.ts'

/** What the meters are seeded with when Redis has none. */
export interface LockUsage {
  /** Locks of the asked hour, as far as they were rolled up. */
  readonly hourLocks: number
  /** Locks of the month that holds the hour. */
  readonly monthLocks: number
  /** The tenant was deleted: nothing may be begun for it any more. */
  readonly deleted: boolean
  /** The epoch that is remembered; undefined for a tenant without one. */
  readonly epoch: string | undefined
}

/** One hour of one tenant's locks. */
export interface HourOfLocks {
  readonly tenantId: TenantId
  /** Hours since the Unix epoch. */
  readonly hour: number
  readonly amount: number
}

/** A tenant's epoch: one life of its data in Redis. */
export interface TenantEpoch {
  readonly tenantId: TenantId
  readonly epoch: string
  /** What Postgres remembered before Redis was asked; undefined for nothing. */
  readonly known: string | undefined
}

const hourMs = 3_600_000
/** Rows one statement writes; callers cut longer lists. */
export const usageRowsMax = 1000

/**
 * Reads what Postgres knows of a tenant: whether it was deleted, its epoch, and its locks in an hour and in the month that
 * holds it. One statement, no lock.
 */
export async function findLockUsage(pool: Pool, tenantId: TenantId, nowMs: number): Promise<LockUsage> {
  const hour = new Date(Math.floor(nowMs / hourMs) * hourMs)
  const month = new Date(Date.UTC(hour.getUTCFullYear(), hour.getUTCMonth(), 1))
  const result = await pool.query<{ hour: string; month: string; deleted: boolean; epoch: string | null }>({
    name: 'usage-find-locks',
    text: `SELECT coalesce(sum(amount) FILTER (WHERE hour = $2), 0) AS hour, coalesce(sum(amount), 0) AS month,
             EXISTS (SELECT FROM tenants WHERE id = $1 AND deleted_at IS NOT NULL) AS deleted,
             (SELECT epoch FROM record_epochs WHERE tenant_id = $1) AS epoch
           FROM usage_hourly WHERE tenant_id = $1 AND meter = 'locks' AND hour >= $3`,
    values: [tenantId, hour, month],
  })
  const row = result.rows[0]
  const [hourLocks, monthLocks] = [Number(row?.hour ?? 0), Number(row?.month ?? 0)]
  return { hourLocks, monthLocks, deleted: row?.deleted ?? false, epoch: row?.epoch ?? undefined }
}

/**
 * Writes hours by their absolute values, at most `usageRowsMax`. A value never shrinks, so that a repeated or late write
 * changes nothing; rows that hold the value already are left out, since a conflict would lock and log them. Rows are locked in
 * the order of their key, so that two processes that write the same do not dead-lock.
 */
export async function saveHoursOfLocks(pool: Pool, hours: readonly HourOfLocks[]): Promise<void> {
  await pool.query({
    name: 'usage-save-hours',
    text: `INSERT INTO usage_hourly AS u (tenant_id, meter, hour, amount)
           SELECT t.tenant_id, 'locks', to_timestamp(t.hour * 3600), t.amount
           FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS t (tenant_id, hour, amount)
           LEFT JOIN usage_hourly AS known ON known.tenant_id = t.tenant_id AND known.meter = 'locks'
             AND known.hour = to_timestamp(t.hour * 3600)
           WHERE known.amount IS NULL OR known.amount < t.amount
           ORDER BY t.tenant_id, t.hour
           ON CONFLICT (tenant_id, meter, hour) DO UPDATE SET amount = excluded.amount
           WHERE u.amount < excluded.amount`,
    values: [hours.map((row) => row.tenantId), hours.map((row) => row.hour), hours.map((row) => row.amount)],
  })
}

/** Reads the epochs that Postgres remembers; a tenant without one is left out. One statement, no lock. */
export async function findEpochs(
  pool: Pool,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, string>> {
  const result = await pool.query<{ tenant_id: TenantId; epoch: string }>({
    name: 'usage-find-epochs',
    text: 'SELECT tenant_id, epoch FROM record_epochs WHERE tenant_id = ANY ($1::text[])',
    values: [tenants],
  })
  return new Map(result.rows.map((row) => [row.tenant_id, row.epoch]))
}

/**
 * Remembers the epochs in force, and writes an audit row for each tenant that had another one before: its records in
 * Redis are gone, and finished operations may run again. Gives those tenants. Repeating it changes and gives nothing, and so
 * does whoever is late: where something else is remembered by now than was `known`, that was read from Redis later. Rows are
 * locked in the order of their key.
 */
export async function saveEpochs(pool: Pool, epochs: readonly TenantEpoch[]): Promise<readonly TenantId[]> {
  const result = await pool.query<{ tenant_id: TenantId }>({
    name: 'usage-save-epochs',
    text: `WITH given AS (
             SELECT tenant_id, epoch, known FROM unnest($1::text[], $2::text[], $3::text[]) AS t (tenant_id, epoch, known)
           ), saved AS (
             INSERT INTO record_epochs AS e (tenant_id, epoch, seeded_at)
             SELECT tenant_id, epoch, now() FROM given ORDER BY tenant_id
             ON CONFLICT (tenant_id) DO UPDATE SET epoch = excluded.epoch, seeded_at = excluded.seeded_at
             WHERE e.epoch <> excluded.epoch
               AND e.epoch = (SELECT given.known FROM given WHERE given.tenant_id = e.tenant_id)
             RETURNING tenant_id, epoch, xmax <> 0 AS replaced
           ), lost AS (
             INSERT INTO audit (at, actor, action, tenant_id, detail)
             SELECT now(), 'api', 'records.epoch_lost', tenant_id, jsonb_build_object('epoch', epoch) FROM saved WHERE replaced
             RETURNING tenant_id
           )
           SELECT tenant_id FROM lost`,
    values: [
      epochs.map((row) => row.tenantId),
      epochs.map((row) => row.epoch),
      epochs.map((row) => row.known ?? null),
    ],
  })
  return result.rows.map((row) => row.tenant_id)
}

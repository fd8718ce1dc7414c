import { inArray } from 'drizzle-orm'
import { monthEndMs, monthStartMs, type TenantId } from '#internal/base/index.ts'
import {
  orm,
  type Pool,
  type PoolClient,
  type PurgeStep,
  purgeByKey,
  type RemovedRows,
  removeOldest,
} from '#internal/storage/index.ts'
import type { RecordDurability } from '#internal/tenants/index.ts'
import type { SoftCrossing } from './meter.ts'
import type { MeterName } from './reading.ts'
import { recordEpochs } from './tables.ts'

export interface HourOfUsage {
  readonly tenantId: TenantId
  readonly meter: MeterName
  /** Hours since the Unix epoch. */
  readonly hour: number
  readonly amount: number
}

/** Epoch of a tenant: an id that changes when the tenant's data in Redis is lost and created anew. */
export interface TenantEpoch {
  readonly tenantId: TenantId
  readonly epoch: string
  /** Epoch in Postgres before Redis was read, if any. */
  readonly known: string | undefined
}

const hourMs = 3_600_000

/** Rows per statement. Callers split longer lists. */
export const usageRowsMax = 1000

/** Reads the data from which a meter is seeded. The locks of the month include those of records in Postgres. */
export async function findUsage(pool: Pool, tenantId: TenantId, meter: MeterName, nowMs: number) {
  const hour = new Date(Math.floor(nowMs / hourMs) * hourMs)
  const month = new Date(monthStartMs(nowMs))
  const { rows } = await pool.query<FoundUsage>({
    name: 'usage-find',
    text: `SELECT u.hour, u.month, t.deleted_at IS NOT NULL AS deleted,
             t.record_store AS store, t.record_store_before AS "storeBefore", coalesce(t.record_store_generation, 0) AS generation,
             (SELECT epoch FROM record_epochs WHERE tenant_id = $1) AS epoch
           FROM (SELECT coalesce(sum(amount) FILTER (WHERE hour = $2), 0) AS hour, coalesce(sum(amount), 0) + (
                   SELECT coalesce(sum(month_locks), 0) FROM record_meters WHERE tenant_id = $1 AND month = $5 AND $4 = 'locks'
                 ) AS month FROM usage_hourly WHERE tenant_id = $1 AND meter = $4 AND hour >= $3) AS u
           LEFT JOIN tenants AS t ON t.id = $1`,
    values: [tenantId, hour, month, meter, (month.getUTCFullYear() - 1970) * 12 + month.getUTCMonth()],
  })
  const [row] = rows
  return {
    hourAmount: Number(row?.hour),
    monthAmount: Number(row?.month),
    deleted: row?.deleted === true,
    epoch: row?.epoch ?? undefined,
    place: placeInRedis(row),
  }
}

interface FoundUsage {
  readonly hour: string
  readonly month: string
  readonly deleted: boolean
  readonly epoch: string | null
  readonly store: RecordDurability | null
  readonly storeBefore: RecordDurability | null
  readonly generation: number
}

/** Returns the place for `place.lua` of records: '' if the records never moved, undefined if they have moved away from Redis. */
function placeInRedis(row: FoundUsage | undefined): string | undefined {
  if (!row || row.generation === 0) return ''
  if (row.store === 'redis') return `${row.generation}h`
  return row.storeBefore === 'redis' ? `${row.generation}p` : undefined
}

/** Sums a tenant's usage by kind in the UTC month that contains the time. Kinds without usage are absent. */
export async function findMonthAmounts(
  connection: Pool | PoolClient,
  tenantId: TenantId,
  kinds: readonly string[],
  atMs: number,
): Promise<ReadonlyMap<string, number>> {
  if (kinds.length === 0) return new Map()
  const { rows } = await connection.query<{ kind: string; amount: string }>({
    name: 'usage-find-month',
    text: `SELECT meter AS kind, sum(amount) AS amount FROM usage_hourly
           WHERE tenant_id = $1 AND meter = ANY($2) AND hour >= $3 AND hour < $4 GROUP BY meter`,
    values: [tenantId, kinds, new Date(monthStartMs(atMs)), new Date(monthEndMs(atMs))],
  })
  return new Map(rows.map(({ kind, amount }) => [kind, Number(amount)]))
}

/**
 * Writes absolute values, at most `usageRowsMax`. An amount never decreases, so a repeated or late write changes nothing. Skips unchanged
 * rows, because even an upsert that changes nothing locks the row and writes to the WAL. Skips deleted tenants, whose purge may have
 * finished. Rows are locked in key order, so that processes do not deadlock.
 */
export async function saveHours(pool: Pool, hours: readonly HourOfUsage[]): Promise<void> {
  await pool.query({
    name: 'usage-save-hours',
    text: `INSERT INTO usage_hourly AS u (tenant_id, meter, hour, amount)
           SELECT t.tenant_id, t.meter, to_timestamp(t.hour * 3600), t.amount
           FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) AS t (tenant_id, meter, hour, amount)
           LEFT JOIN usage_hourly AS known ON known.tenant_id = t.tenant_id AND known.meter = t.meter
             AND known.hour = to_timestamp(t.hour * 3600)
           WHERE (known.amount IS NULL OR known.amount < t.amount)
             AND NOT EXISTS (SELECT FROM tenants WHERE id = t.tenant_id AND deleted_at IS NOT NULL)
           ORDER BY t.tenant_id, t.meter, t.hour
           ON CONFLICT (tenant_id, meter, hour) DO UPDATE SET amount = excluded.amount
           WHERE u.amount < excluded.amount`,
    values: [
      hours.map((row) => row.tenantId),
      hours.map((row) => row.meter),
      hours.map((row) => row.hour),
      hours.map((row) => row.amount),
    ],
  })
}

/**
 * Writes an audit row for each crossing that has none yet, and returns these crossings, at most `usageRowsMax`. A unique index over tenant,
 * limit and period ensures that only one process reports a crossing, and only once.
 * @param by actor for the audit log
 */
export async function saveSoftCrossings(
  connection: Pool | PoolClient,
  crossings: readonly SoftCrossing[],
  by: string,
): Promise<readonly SoftCrossing[]> {
  const details = crossings.map(({ limit, periodMs, used, soft }) =>
    JSON.stringify({ limit, period: new Date(periodMs).toISOString(), used, soft }),
  )
  const { rows } = await connection.query<{ tenantId: string; limit: string; period: string }>({
    name: 'usage-save-soft-crossings',
    text: `INSERT INTO audit (at, actor, action, tenant_id, detail)
           SELECT now(), $3, 'usage.soft_limit_crossed', tenant_id, detail::jsonb
           FROM unnest($1::text[], $2::text[]) AS t (tenant_id, detail)
           ORDER BY tenant_id, detail
           ON CONFLICT (tenant_id, (detail ->> 'limit'), (detail ->> 'period'))
             WHERE action = 'usage.soft_limit_crossed' DO NOTHING
           RETURNING tenant_id AS "tenantId", detail ->> 'limit' AS "limit", detail ->> 'period' AS period`,
    values: [crossings.map(({ tenantId }) => tenantId), details, by],
  })
  const written = new Set(rows.map(({ tenantId, limit, period }) => `${tenantId} ${limit} ${period}`))
  return crossings.filter(({ tenantId, limit, periodMs }) =>
    written.has(`${tenantId} ${limit} ${new Date(periodMs).toISOString()}`),
  )
}

/** Returns the epochs of tenants. Omits tenants without an epoch. */
export async function findEpochs(
  pool: Pool,
  tenants: readonly TenantId[],
): Promise<ReadonlyMap<TenantId, string>> {
  const { tenantId, epoch } = recordEpochs
  const rows = await orm(pool)
    .select({ tenantId, epoch })
    .from(recordEpochs)
    .where(inArray(tenantId, [...tenants]))
  return new Map(rows.map((row) => [row.tenantId, row.epoch]))
}

/**
 * Saves epochs, with an audit row for each tenant whose epoch changed (its records in Redis are lost, and finished operations can run
 * again), and returns those tenants. Compares the stored epoch with `known`, so a late or repeated write changes and returns nothing. Skips
 * deleted tenants, whose purge may have finished. Rows are locked in key order.
 * @param by actor for the audit log
 */
export async function saveEpochs(
  pool: Pool,
  epochs: readonly TenantEpoch[],
  by: string,
): Promise<readonly TenantId[]> {
  const result = await pool.query<{ tenant_id: TenantId }>({
    name: 'usage-save-epochs',
    text: `WITH given AS (
             SELECT tenant_id, epoch, known FROM unnest($1::text[], $2::text[], $3::text[]) AS t (tenant_id, epoch, known)
           ), saved AS (
             INSERT INTO record_epochs AS e (tenant_id, epoch, seeded_at)
             SELECT tenant_id, epoch, now() FROM given
             WHERE NOT EXISTS (SELECT FROM tenants WHERE id = given.tenant_id AND deleted_at IS NOT NULL)
             ORDER BY tenant_id
             ON CONFLICT (tenant_id) DO UPDATE SET epoch = excluded.epoch, seeded_at = excluded.seeded_at
             WHERE e.epoch <> excluded.epoch
               AND e.epoch = (SELECT given.known FROM given WHERE given.tenant_id = e.tenant_id)
             RETURNING tenant_id, epoch, xmax <> 0 AS replaced
           ), lost AS (
             INSERT INTO audit (at, actor, action, tenant_id, detail)
             SELECT now(), $4, 'records.epoch_lost', tenant_id, jsonb_build_object('epoch', epoch) FROM saved WHERE replaced
             RETURNING tenant_id
           )
           SELECT tenant_id FROM lost`,
    values: [
      epochs.map((row) => row.tenantId),
      epochs.map((row) => row.epoch),
      epochs.map((row) => row.known ?? null),
      by,
    ],
  })
  return result.rows.map((row) => row.tenant_id)
}

export interface HourAmount {
  readonly hourMs: number
  /** `locks`, `events`, or a kind that another system reports. */
  readonly kind: string
  readonly amount: number
}

const hoursReadMax = 20_000

/** Lists hours by time and kind, at most 20 000. Locks of both stores are added; the count in Postgres is exact, even without Redis. */
export async function listHours(
  pool: Pool,
  tenantId: TenantId,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<readonly HourAmount[]> {
  const { rows } = await pool.query<HourAmount>({
    name: 'usage-list-hours',
    text: `SELECT (extract(epoch FROM hour) * 1000)::float8 AS "hourMs", kind, sum(amount)::float8 AS amount FROM (
             SELECT hour, meter AS kind, amount + durable_amount AS amount FROM usage_hourly
             WHERE tenant_id = $1 AND hour >= $2 AND hour < $3
             UNION ALL
             SELECT to_timestamp(hour * 3600.0), 'locks', locks FROM record_hours WHERE tenant_id = $1 AND hour >= $4 AND hour < $5
           ) AS own GROUP BY hour, kind ORDER BY hour, kind LIMIT $6`,
    values: [
      tenantId,
      new Date(fromMs),
      new Date(toMs),
      Math.ceil(fromMs / hourMs),
      Math.ceil(toMs / hourMs),
      hoursReadMax,
    ],
  })
  return rows
}

/** A year, and time to compare a month with the same month of the previous year. */
const keptMs = 400 * 86_400_000

/** Removes usage that is over 400 days old, at most 5 000 rows, using an index. Idempotent. */
export function forgetHours(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'usage_hourly', before: new Date(nowMs - keptMs) })
}

/** Steps that remove a deleted tenant's usage, stats, overrides, epochs and meters in Postgres. */
export const purgeUsageSteps: readonly PurgeStep[] = [
  purgeByKey('usage_hourly', ['meter', 'hour']),
  purgeByKey('usage_emissions', ['id']),
  purgeByKey('stats_minutely', ['at']),
  purgeByKey('stats_hourly', ['at']),
  purgeByKey('limit_overrides', ['limit_name']),
  purgeByKey('record_epochs', ['tenant_id']),
  purgeByKey('record_hours', ['hour', 'stripe']),
  purgeByKey('record_bytes', ['until', 'stripe']),
  purgeByKey('record_meters', ['stripe']),
]

import type { TenantId } from '#internal/base/index.ts'
import {
  type Pool,
  type PurgeStep,
  purgeByKey,
  type RemovedRows,
  removeOldest,
} from '#internal/storage/index.ts'
import type { SoftCrossing } from './meter.ts'
import type { MeterName } from './reading.ts'

/** Usage in Postgres from which a meter is seeded. */
export interface StoredUsage {
  /** Rolled-up amount of the requested hour. */
  readonly hourAmount: number
  /** Rolled-up amount of its month. */
  readonly monthAmount: number
  /** The tenant is deleted and gets no meters. */
  readonly deleted: boolean
  /** The epoch that is remembered; undefined for a tenant without one. */
  readonly epoch: string | undefined
}

/** One hour of one tenant's meter. */
export interface HourOfUsage {
  readonly tenantId: TenantId
  readonly meter: MeterName
  /** Hours since the Unix epoch. */
  readonly hour: number
  readonly amount: number
}

/** A tenant's epoch: one life of its data in Redis. */
export interface TenantEpoch {
  readonly tenantId: TenantId
  readonly epoch: string
  /** Epoch in Postgres before Redis was read; undefined for none. */
  readonly known: string | undefined
}

const hourMs = 3_600_000
/** Rows one statement writes; callers cut longer lists. */
export const usageRowsMax = 1000

/**
 * Reads what Postgres knows of a tenant: whether it was deleted, its epoch, and a meter's amounts in an hour and in the month that
 * holds it. One statement, no lock.
 */
export async function findUsage(
  pool: Pool,
  tenantId: TenantId,
  meter: MeterName,
  nowMs: number,
): Promise<StoredUsage> {
  const hour = new Date(Math.floor(nowMs / hourMs) * hourMs)
  const month = new Date(Date.UTC(hour.getUTCFullYear(), hour.getUTCMonth(), 1))
  const result = await pool.query<{ hour: string; month: string; deleted: boolean; epoch: string | null }>({
    name: 'usage-find',
    text: `SELECT coalesce(sum(amount) FILTER (WHERE hour = $2), 0) AS hour, coalesce(sum(amount), 0) AS month,
             EXISTS (SELECT FROM tenants WHERE id = $1 AND deleted_at IS NOT NULL) AS deleted,
             (SELECT epoch FROM record_epochs WHERE tenant_id = $1) AS epoch
           FROM usage_hourly WHERE tenant_id = $1 AND meter = $4 AND hour >= $3`,
    values: [tenantId, hour, month, meter],
  })
  const row = result.rows[0]
  const [hourAmount, monthAmount] = [Number(row?.hour ?? 0), Number(row?.month ?? 0)]
  return { hourAmount, monthAmount, deleted: row?.deleted ?? false, epoch: row?.epoch ?? undefined }
}

/**
 * Writes hours by their absolute values, at most `usageRowsMax`. A value never shrinks, so that a repeated or late write
 * changes nothing; rows that hold the value already are left out, since a conflict would lock and log them. Rows are locked in
 * the order of their key, so that two processes that write the same do not dead-lock. A deleted tenant's are left out: nobody
 * would remove them again.
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
 * Writes an audit row for each crossing that has none yet, and gives those: a unique index over tenant, limit and period decides,
 * so that of all processes one is given it, once. One statement, at most `usageRowsMax`; repeating it writes and gives nothing.
 */
export async function saveSoftCrossings(
  pool: Pool,
  crossings: readonly SoftCrossing[],
): Promise<readonly SoftCrossing[]> {
  const details = crossings.map(({ limit, periodMs, used, soft }) =>
    JSON.stringify({ limit, period: new Date(periodMs).toISOString(), used, soft }),
  )
  const { rows } = await pool.query<{ tenantId: string; limit: string; period: string }>({
    name: 'usage-save-soft-crossings',
    text: `INSERT INTO audit (at, actor, action, tenant_id, detail)
           SELECT now(), 'api', 'usage.soft_limit_crossed', tenant_id, detail::jsonb
           FROM unnest($1::text[], $2::text[]) AS t (tenant_id, detail)
           ORDER BY tenant_id, detail
           ON CONFLICT (tenant_id, (detail ->> 'limit'), (detail ->> 'period'))
             WHERE action = 'usage.soft_limit_crossed' DO NOTHING
           RETURNING tenant_id AS "tenantId", detail ->> 'limit' AS "limit", detail ->> 'period' AS period`,
    values: [crossings.map(({ tenantId }) => tenantId), details],
  })
  const written = new Set(rows.map(({ tenantId, limit, period }) => `${tenantId} ${limit} ${period}`))
  return crossings.filter(({ tenantId, limit, periodMs }) =>
    written.has(`${tenantId} ${limit} ${new Date(periodMs).toISOString()}`),
  )
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
 * does whoever is late: where something else is remembered by now than was `known`, that was read from Redis later. Those of
 * deleted tenants are left out: nobody would remove them again. Rows are locked in the order of their key.
 */
export async function saveEpochs(pool: Pool, epochs: readonly TenantEpoch[]): Promise<readonly TenantId[]> {
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

/** Amount of an hour: from our own meters and from emissions. */
export interface HourAmount {
  /** Start of the hour, ms since the epoch. */
  readonly hourMs: number
  readonly meter: string
  readonly amount: number
}

const hoursReadMax = 20_000

/** A tenant's hours that began in a span, by time and meter; at most 20 000. By the primary key's first column, no lock. */
export async function listHours(
  pool: Pool,
  tenantId: TenantId,
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
): Promise<readonly HourAmount[]> {
  const { rows } = await pool.query<HourAmount>({
    name: 'usage-list-hours',
    text: `SELECT floor(extract(epoch FROM hour) * 1000)::bigint AS "hourMs", meter, amount FROM usage_hourly
           WHERE tenant_id = $1 AND hour >= $2 AND hour < $3 ORDER BY hour, meter LIMIT $4`,
    values: [tenantId, new Date(fromMs), new Date(toMs), hoursReadMax],
  })
  return rows
}

/** A month can be compared with that of the year before. */
const keptMs = 400 * 86_400_000

/**
 * Removes usage of hours over 400 days ago, at most 5 000 rows, by the index over their hours. No limit looks back further than a
 * month. Repeating it is safe. @throws whatever Postgres throws
 */
export function forgetHours(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'usage_hourly', before: new Date(nowMs - keptMs) })
}

/** Removes a deleted tenant's rows of this room. */
export const purgeUsageSteps: readonly PurgeStep[] = [
  purgeByKey('usage_hourly', ['meter', 'hour']),
  purgeByKey('usage_emissions', ['id']),
  purgeByKey('stats_minutely', ['at']),
  purgeByKey('stats_hourly', ['at']),
  purgeByKey('limit_overrides', ['limit_name']),
  purgeByKey('record_epochs', ['tenant_id']),
]

import type { TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/** Usage reported by another system. */
export interface UsageEmission {
  /** Id of the emission in the other system, unique per tenant: 1 to 128 printable characters. */
  readonly id: string
  readonly tenantId: TenantId
  /** Meter name, such as `exports.rows`. The names `locks` and `events` are reserved. */
  readonly kind: string
  readonly count: number
  /** Time in ms since the epoch; the amount counts towards its UTC hour. At most 35 days ago and 5 minutes ahead. */
  readonly at: number
}

/**
 * Result of recording an emission. `known`: the same emission was recorded before and nothing changed. `conflict`: the id belongs to a
 * different emission.
 */
export type UsageRecorded =
  | { readonly kind: 'recorded' | 'known' | 'conflict' }
  | { readonly kind: 'refused'; readonly problem: string }

const hourMs = 3_600_000
const agoMsMax = 35 * 24 * hourMs
const aheadMsMax = 300_000
const idPattern = /^[^\p{Cc}\p{Cf}]{1,128}$/u
const ownMeters = ['locks', 'events']
/** Retention of ids: longer than the maximum age of an emission, so that no emission is recorded twice. */
const rememberedMs = 40 * 24 * hourMs

/**
 * Adds an emission to a tenant's usage of an hour, once per id; a repeat changes nothing. One statement commits id and amount together, and
 * concurrent calls with one id wait for each other.
 * @throws errors of Postgres; the caller should then repeat the call
 */
export async function recordUsage(
  connection: Pick<Pool | PoolClient, 'query'>,
  emission: UsageEmission,
  nowMs: number,
): Promise<UsageRecorded> {
  const problem = problemWith(emission, nowMs)
  if (problem !== undefined) return { kind: 'refused', problem }
  const { id, tenantId, kind, count, at } = emission
  const hour = new Date(Math.floor(at / hourMs) * hourMs)
  const { rows } = await connection.query<{ alive: boolean; recorded: boolean }>({
    name: 'usage-record',
    // The share lock makes a deletion of the tenant wait, so that the tenant's purge finds the rows inserted here.
    text: `WITH owner AS (SELECT id FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR SHARE),
           fresh AS (
             INSERT INTO usage_emissions (tenant_id, id, meter, hour, amount, recorded_at)
             SELECT id, $2, $3, $4, $5, $6 FROM owner ON CONFLICT DO NOTHING RETURNING tenant_id, meter, hour, amount
           ), added AS (
             INSERT INTO usage_hourly AS u (tenant_id, meter, hour, amount) SELECT * FROM fresh
             ON CONFLICT (tenant_id, meter, hour) DO UPDATE SET amount = u.amount + excluded.amount
           )
           SELECT EXISTS (SELECT FROM owner) AS alive, EXISTS (SELECT FROM fresh) AS recorded`,
    values: [tenantId, id, kind, hour, count, new Date(nowMs)],
  })
  if (rows[0]?.alive !== true) return { kind: 'refused', problem: 'There is no such tenant' }
  if (rows[0].recorded) return { kind: 'recorded' }
  // Needs a second statement, because the snapshot of the first can be too old to contain the conflicting row.
  const before = await connection.query({
    name: 'usage-find-emission',
    text: `SELECT FROM usage_emissions WHERE tenant_id = $1 AND id = $2 AND meter = $3 AND hour = $4 AND amount = $5`,
    values: [tenantId, id, kind, hour, count],
  })
  return { kind: before.rowCount === 1 ? 'known' : 'conflict' }
}

/**
 * Removes ids of emissions that are too old to be recorded again, at most `rowsMax` (default 5 000). Their amounts are kept. Idempotent.
 */
export function forgetEmissions(pool: Pool, nowMs: number, rowsMax?: number): Promise<RemovedRows> {
  const before = new Date(nowMs - rememberedMs)
  return removeOldest(pool, { table: 'usage_emissions', before, ...(rowsMax !== undefined && { rowsMax }) })
}

function problemWith({ id, kind, at }: UsageEmission, nowMs: number): string | undefined {
  if (!idPattern.test(id)) return 'The id must have 1 to 128 printable characters'
  if (ownMeters.includes(kind)) return `${ownMeters.join(' and ')} are counted by Latchkey itself`
  if (!(at >= nowMs - agoMsMax && at <= nowMs + aheadMsMax)) return 'The time must be within the last 35 days'
  return undefined
}

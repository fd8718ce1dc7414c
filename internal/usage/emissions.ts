import type { TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/** Usage reported by another system. */
export interface UsageEmission {
  /** The other system's own name for it, unique within the tenant: 1 to 128 printable characters. */
  readonly id: string
  readonly tenantId: TenantId
  /** Meter, such as `exports.rows`: dotted lowercase, at most 64 characters; `locks` and `events` are reserved. */
  readonly kind: string
  /** A whole number from 0 up. */
  readonly count: number
  /** Time, ms since the epoch: it counts for that UTC hour. At most 35 days ago and 5 minutes ahead. */
  readonly at: number
}

/**
 * Result of recording. `known`: the same emission was recorded before; nothing changed. `conflict`: the id belongs to another one.
 */
export type UsageRecorded =
  | { readonly kind: 'recorded' | 'known' | 'conflict' }
  | { readonly kind: 'refused'; readonly problem: string }

const hourMs = 3_600_000
const agoMsMax = 35 * 24 * hourMs
const aheadMsMax = 300_000
const countMax = 1_000_000_000_000
const idPattern = /^[^\p{Cc}\p{Cf}]{1,128}$/u
const kindPattern = /^[a-z][a-z0-9_]*(\.[a-z0-9_]+)*$/
const kindLengthMax = 64
const ourMeters = ['locks', 'events']
/** Ids are remembered longer than an emission may lie back, so that none is recorded again. */
const rememberedMs = 40 * 24 * hourMs

/**
 * Adds to a tenant's usage of an hour, once for each id: told again, it changes nothing. One statement, so a commit that holds the id
 * holds the amount too; two at once under one id wait for each other.
 * @throws what Postgres throws: repeat it then
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
    // The share lock lets a deletion wait, so that its purge finds what is added here.
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
  // Another statement, since the first one's snapshot may be older than what it met.
  const before = await connection.query({
    name: 'usage-find-emission',
    text: `SELECT FROM usage_emissions WHERE tenant_id = $1 AND id = $2 AND meter = $3 AND hour = $4 AND amount = $5`,
    values: [tenantId, id, kind, hour, count],
  })
  return { kind: before.rowCount === 1 ? 'known' : 'conflict' }
}

/**
 * Forgets the ids of emissions that lie so far back that the same could not be recorded any more, at most `rowsMax` (default 5 000).
 * Their amounts stay. By an index; repeating it is safe, also while another does the same. @throws whatever Postgres throws
 */
export function forgetEmissions(pool: Pool, nowMs: number, rowsMax?: number): Promise<RemovedRows> {
  const before = new Date(nowMs - rememberedMs)
  return removeOldest(pool, { table: 'usage_emissions', before, ...(rowsMax !== undefined && { rowsMax }) })
}

function problemWith({ id, kind, count, at }: UsageEmission, nowMs: number): string | undefined {
  if (!idPattern.test(id)) return 'The id has to be 1 to 128 printable characters'
  if (kind.length > kindLengthMax || !kindPattern.test(kind))
    return `The kind has to be dotted lowercase, at most ${kindLengthMax} characters`
  if (ourMeters.includes(kind)) return `${ourMeters.join(' and ')} are counted by Latchkey itself`
  if (!(Number.isInteger(count) && count >= 0 && count <= countMax))
    return `The count has to be a whole number from 0 to ${countMax}`
  if (!(at >= nowMs - agoMsMax && at <= nowMs + aheadMsMax))
    return 'The time has to lie within the last 35 days'
  return undefined
}

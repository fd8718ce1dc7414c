import { writeAudit } from '#internal/access/index.ts'
import { type Clock, parseTenantId, type TenantId } from '#internal/base/index.ts'
import { type Pool, type PoolClient, type RedisConnection, withTx } from '#internal/storage/index.ts'
import { type LimitName, limitAmountMax, limitNames } from '#internal/tenants/index.ts'
import type { LimitOverride } from './limits.ts'

/** Redis channel that wakes all processes after a write of overrides. The message is empty. */
export const limitsChannel = 'latchkey:limits'

/** Notifies all processes of changed overrides. Repeating it is harmless. @throws RedisUnavailable: processes then poll */
export async function tellLimits(redis: RedisConnection): Promise<void> {
  await redis.publish(limitsChannel, '')
}

/** Dependencies of writing overrides. */
export interface OverrideParts {
  readonly pool: Pool
  readonly clock: Clock
}

/** Override to clear, and the actor. */
export interface OverrideClearing {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** Actor for the audit log: 1 to 200 printable characters. */
  readonly by: string
}

/** Override to set, with its end and reason. */
export interface OverrideSetting extends OverrideClearing {
  /** `null`: no limit for that time. */
  readonly hard: number | null
  /** Milliseconds since the epoch: later than now, and at most a year. */
  readonly untilMs: number
  /** 1 to 500 printable characters. */
  readonly reason: string
}

/** Result of a write. `existed`: there was an override to clear. */
export type OverrideWritten =
  | { readonly kind: 'written' }
  | { readonly kind: 'cleared'; readonly existed: boolean }
  | { readonly kind: 'refused'; readonly problem: string }

const lastingMsMax = 366 * 24 * 3_600_000
const byPattern = /^[^\p{Cc}\p{Cf}]{1,200}$/u
const reasonPattern = /^[^\p{Cc}\p{Cf}]{1,500}$/u

/**
 * Sets a tenant's hard limit for a time, and says so in the audit log in the same commit. Tell `tellLimits` afterwards; without
 * that it is in force everywhere with the next poll. Repeating it writes the same again.
 * @throws what Postgres throws; whether it was written is then unknown when the commit itself failed
 */
export async function setLimitOverride(
  { pool, clock }: OverrideParts,
  setting: OverrideSetting,
): Promise<OverrideWritten> {
  const nowMs = clock.now()
  const problem = problemWith(setting, nowMs)
  if (problem !== undefined) return { kind: 'refused', problem }
  return withTx(pool, async (client) => {
    await lockOverrides(client, nowMs)
    if (!(await lockLiveTenant(client, setting.tenantId)))
      return { kind: 'refused', problem: 'There is no such tenant' }
    if ((await countOtherOverrides(client, setting)) >= overridesMax)
      return {
        kind: 'refused',
        problem: `There are ${overridesMax} overrides, which is all that there may be`,
      }
    await writeOverride(client, { ...setting, setAtMs: nowMs })
    return { kind: 'written' }
  })
}

/** Ends an override before its time; otherwise as `setLimitOverride`. */
export async function clearLimitOverride(
  { pool, clock }: OverrideParts,
  clearing: OverrideClearing,
): Promise<OverrideWritten> {
  const nowMs = clock.now()
  const problem = problemWithNames(clearing)
  if (problem !== undefined) return { kind: 'refused', problem }
  return withTx(pool, async (client) => {
    await lockOverrides(client, nowMs)
    return { kind: 'cleared', existed: await removeOverride(client, { ...clearing, nowMs }) }
  })
}

function problemWithNames({ limit, by }: OverrideClearing): string | undefined {
  if (!limitNames.includes(limit)) return `The limit has to be one of ${limitNames.join(', ')}`
  if (!byPattern.test(by)) return 'The actor must be named, in 1 to 200 printable characters'
  return undefined
}

function problemWith(setting: OverrideSetting, nowMs: number): string | undefined {
  const { hard, untilMs, reason } = setting
  if (hard !== null && !(Number.isSafeInteger(hard) && hard >= 0 && hard <= limitAmountMax))
    return `The limit has to be a whole number from 0 to ${limitAmountMax}, or null for none`
  if (!(untilMs > nowMs && untilMs <= nowMs + lastingMsMax))
    return 'The time at which it ends has to lie ahead, by at most 366 days'
  if (!reasonPattern.test(reason)) return 'Why has to be said, in 1 to 500 printable characters'
  return problemWithNames(setting)
}

/** An override as it was set, with whose it is. Times in milliseconds since the epoch. */
export interface StoredOverride extends LimitOverride {
  readonly tenantId: TenantId
  readonly by: string
  readonly reason: string
  readonly setAtMs: number
}

/** Overrides that there may be at a time, so that all fit in every process. */
export const overridesMax = 10_000

interface RawOverride {
  readonly tenantId: string
  readonly limit: string
  readonly hard: number | null
  readonly untilMs: number
  readonly by: string
  readonly reason: string
  readonly setAtMs: number
}

const columns = `tenant_id AS "tenantId", limit_name AS "limit", hard,
  floor(extract(epoch FROM until) * 1000)::bigint AS "untilMs", set_by AS "by", reason,
  floor(extract(epoch FROM set_at) * 1000)::bigint AS "setAtMs"`

/** The number of the last committed change of any override. One row, no lock. */
export async function readOverridesVersion(pool: Pool): Promise<number> {
  const { rows } = await pool.query<{ version: number }>({
    name: 'read_limit_overrides_version',
    text: 'SELECT version FROM limit_overrides_version',
  })
  return versionIn(rows)
}

/**
 * Reads all overrides, lapsed ones too, with the version that they are of: one statement, so both are of one moment. One of a limit
 * that this build does not know is left out. No lock.
 */
export async function readOverrides(
  pool: Pool,
): Promise<{ readonly version: number; readonly overrides: readonly StoredOverride[] }> {
  const { rows } = await pool.query<{ version: number; overrides: RawOverride[] }>({
    name: 'read_limit_overrides',
    text: `SELECT version, coalesce((SELECT json_agg(o) FROM (SELECT ${columns} FROM limit_overrides) o), '[]') AS overrides
           FROM limit_overrides_version`,
  })
  return { version: versionIn(rows), overrides: rows[0]?.overrides.flatMap(toStored) ?? [] }
}

/** A tenant's overrides, lapsed ones too. By the key's first column, no lock. */
export async function findOverrides(pool: Pool, tenantId: TenantId): Promise<readonly StoredOverride[]> {
  const { rows } = await pool.query<RawOverride>({
    name: 'find_limit_overrides',
    text: `SELECT ${columns} FROM limit_overrides WHERE tenant_id = $1 ORDER BY limit_name`,
    values: [tenantId],
  })
  return rows.flatMap(toStored)
}

/** Raises the version, which keeps other writers away until the transaction ends, and removes what has lapsed. */
export async function lockOverrides(client: PoolClient, nowMs: number): Promise<void> {
  await client.query('UPDATE limit_overrides_version SET version = version + 1')
  await client.query('DELETE FROM limit_overrides WHERE until <= $1', [new Date(nowMs)])
}

/** Returns whether the tenant exists, and keeps it from being deleted until the transaction ends, so that its purge finds the override. */
export async function lockLiveTenant(client: PoolClient, tenantId: TenantId): Promise<boolean> {
  const { rowCount } = await client.query(
    'SELECT FROM tenants WHERE id = $1 AND deleted_at IS NULL FOR SHARE',
    [tenantId],
  )
  return rowCount === 1
}

/** Counts the other overrides. Exact while the version's row is locked. */
export async function countOtherOverrides(
  client: PoolClient,
  { tenantId, limit }: Pick<StoredOverride, 'tenantId' | 'limit'>,
): Promise<number> {
  const { rows } = await client.query<{ count: number }>(
    'SELECT count(*) FROM limit_overrides WHERE (tenant_id, limit_name) <> ($1, $2)',
    [tenantId, limit],
  )
  return rows[0]?.count ?? 0
}

/** Writes an override in place of the one before, and an audit row. Under the version's lock. */
export async function writeOverride(client: PoolClient, override: StoredOverride): Promise<void> {
  const { tenantId, limit, hard, untilMs, by, reason, setAtMs } = override
  await client.query(
    `INSERT INTO limit_overrides (tenant_id, limit_name, hard, until, reason, set_at, set_by)
     VALUES ($1, $2, $3, $4, $5, $6, $7)
     ON CONFLICT (tenant_id, limit_name) DO UPDATE SET hard = excluded.hard, until = excluded.until,
       reason = excluded.reason, set_at = excluded.set_at, set_by = excluded.set_by`,
    [tenantId, limit, hard, new Date(untilMs), reason, new Date(setAtMs), by],
  )
  const detail = { limit, hard, until: new Date(untilMs).toISOString(), reason }
  await writeAudit(client, { actor: by, action: 'usage.override_set', tenantId, detail }, setAtMs)
}

/** Removes an override and writes an audit row; false if there was none. Under the version's lock. */
export async function removeOverride(
  client: PoolClient,
  removal: Pick<StoredOverride, 'tenantId' | 'limit' | 'by'> & { readonly nowMs: number },
): Promise<boolean> {
  const { tenantId, limit, by, nowMs } = removal
  const { rows } = await client.query<{ hard: number | null }>(
    'DELETE FROM limit_overrides WHERE tenant_id = $1 AND limit_name = $2 RETURNING hard',
    [tenantId, limit],
  )
  const [removed] = rows
  if (removed === undefined) return false
  const detail = { limit, hard: removed.hard }
  await writeAudit(client, { actor: by, action: 'usage.override_cleared', tenantId, detail }, nowMs)
  return true
}

function versionIn(rows: readonly { readonly version: number }[]): number {
  const version = rows[0]?.version
  if (version === undefined)
    throw new Error('the row of limit_overrides_version is missing: run the migrations')
  return version
}

function toStored({ tenantId, limit, ...rest }: RawOverride): StoredOverride[] {
  if (!isLimitName(limit)) return []
  return [{ ...rest, tenantId: parseTenantId(tenantId), limit }]
}

function isLimitName(name: string): name is LimitName {
  return limitNames.some((each) => each === name)
}

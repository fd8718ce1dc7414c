import { and, asc, eq, lte, ne, or, sql } from 'drizzle-orm'
import { writeAudit } from '#internal/access/index.ts'
import type { Clock, TenantId } from '#internal/base/index.ts'
import { plainTextForm } from '#internal/http/index.ts'
import { orm, type Pool, type PoolClient, type RedisConnection, withTx } from '#internal/storage/index.ts'
import {
  type AnyLimitName,
  emittedKindOf,
  emittedKindsMax,
  limitAmountMax,
  lockLiveTenant,
  parseLimitName,
} from '#internal/tenants/index.ts'
import { limitOverrides, limitOverridesVersion } from './tables.ts'

/** Redis channel that wakes all processes after a write of overrides. The message is empty. */
export const limitsChannel = 'latchkey:limits'

/**
 * Notifies all processes of changed overrides. Repeating the call is safe.
 * @throws RedisUnavailable; processes then find the change by polling
 */
export async function tellLimits(redis: RedisConnection): Promise<void> {
  await redis.publish(limitsChannel, '')
}

export type StoredOverride = Readonly<Omit<typeof limitOverrides.$inferSelect, 'limit'>> & {
  readonly limit: AnyLimitName
}

/** `hard`: null for no limit. `expiresAtMs`: in the future, at most 366 days ahead. `reason`: 1 to 500 characters of `plainTextForm`. */
export type OverrideSetting = Omit<StoredOverride, 'updatedAtMs' | 'updatedBy'> & { readonly by: string }

/** Maximum number of days for which an override applies. */
export const overrideDaysMax = 366
/** Maximum characters of the reason of an override. */
export const overrideReasonCharsMax = 500
const reasonForm = plainTextForm(overrideReasonCharsMax)
/** Maximum number of overrides of all tenants in total, so that they fit into the memory of every process. */
const overridesMax = 10_000

/** With `field`, `problem` completes the sentence that begins with the field: "must be …". */
interface OverrideRefusal {
  readonly kind: 'refused'
  readonly problem: string
  readonly field?: 'expiresAt'
}

/**
 * Overrides a tenant's hard limit until a given time, with an audit entry in the same transaction. Call `tellLimits` afterwards; without
 * it, processes find the override by polling. Repeating the call writes the same values again.
 * @throws errors of Postgres; if the commit itself failed, the override may have been written
 */
export async function setLimitOverride(
  {
    pool,
    clock,
  }: {
    readonly pool: Pool
    readonly clock: Clock
  },
  setting: OverrideSetting,
): Promise<{ readonly kind: 'written' } | OverrideRefusal> {
  const nowMs = clock.now()
  const refused = validate(setting, nowMs)
  if (refused !== undefined) return refused
  const { tenantId, limit, by, ...values } = setting
  return withTx(pool, async (client) => {
    const db = orm(client)
    await lockOverrides(client, nowMs)
    if (!(await lockLiveTenant(client, tenantId)))
      return { kind: 'refused', problem: 'There is no such tenant' }
    const isOther = or(ne(limitOverrides.tenantId, tenantId), ne(limitOverrides.limit, limit))
    if ((await db.$count(limitOverrides, isOther)) >= overridesMax)
      return { kind: 'refused', problem: `There are ${overridesMax} overrides, which is the maximum` }
    if (emittedKindOf(limit) !== undefined) {
      const present = (await findOverrides(client, tenantId)).filter((each) => each.limit !== limit)
      if (present.filter((each) => emittedKindOf(each.limit) !== undefined).length >= emittedKindsMax)
        return {
          kind: 'refused',
          problem: `The tenant has overrides of ${emittedKindsMax} emitted kinds, which is the maximum`,
        }
    }
    const row = { ...values, updatedBy: by, updatedAtMs: nowMs }
    const target = [limitOverrides.tenantId, limitOverrides.limit]
    const insert = db.insert(limitOverrides).values({ tenantId, limit, ...row })
    await insert.onConflictDoUpdate({ target, set: row })
    const { hard, expiresAtMs, reason } = values
    const detail = { limit, hard, expiresAt: new Date(expiresAtMs).toISOString(), reason }
    await writeAudit(client, { actor: by, action: 'usage.override_set', tenantId, detail }, nowMs)
    return { kind: 'written' }
  })
}

/** Clears an override before it expires; false if none existed. Otherwise behaves like `setLimitOverride`. */
export async function clearLimitOverride(
  { pool, clock }: Parameters<typeof setLimitOverride>[0],
  { tenantId, limit, by }: Pick<StoredOverride, 'tenantId' | 'limit'> & { readonly by: string },
): Promise<boolean> {
  const nowMs = clock.now()
  return withTx(pool, async (client) => {
    await lockOverrides(client, nowMs)
    const isThis = and(eq(limitOverrides.tenantId, tenantId), eq(limitOverrides.limit, limit))
    const [removed] = await orm(client).delete(limitOverrides).where(isThis).returning()
    if (removed === undefined) return false
    const detail = { limit, hard: removed.hard }
    await writeAudit(client, { actor: by, action: 'usage.override_cleared', tenantId, detail }, nowMs)
    return true
  })
}

function validate(
  { hard, expiresAtMs, reason }: OverrideSetting,
  nowMs: number,
): OverrideRefusal | undefined {
  const refuse = (problem: string) => ({ kind: 'refused', problem }) as const
  if (hard !== null && !(Number.isSafeInteger(hard) && hard >= 0 && hard <= limitAmountMax))
    return refuse(`The limit must be a whole number from 0 to ${limitAmountMax}, or null for none`)
  if (!(expiresAtMs > nowMs && expiresAtMs <= nowMs + overrideDaysMax * 86_400_000))
    return { ...refuse(`must be in the future, at most ${overrideDaysMax} days ahead`), field: 'expiresAt' }
  return reasonForm.test(reason)
    ? undefined
    : refuse(
        `The reason must have 1 to ${overrideReasonCharsMax} characters without control characters or U+FFFD`,
      )
}

/** Locks the row of the version, so that writers run one after another, and removes expired overrides. */
async function lockOverrides(client: PoolClient, nowMs: number): Promise<void> {
  const db = orm(client)
  await db.update(limitOverridesVersion).set({ version: sql`${limitOverridesVersion.version} + 1` })
  await db.delete(limitOverrides).where(lte(limitOverrides.expiresAtMs, nowMs))
}

const versionOnly = { version: limitOverridesVersion.version }

export async function readOverridesVersion(pool: Pool): Promise<number> {
  const query = orm(pool).select(versionOnly).from(limitOverridesVersion)
  return versionIn(await query.prepare('limit_overrides_version').execute())
}

/** Reads all overrides, also expired ones, and their version in the same snapshot. Skips limits that this release does not know. */
export async function readOverrides(
  pool: Pool,
): Promise<{ readonly version: number; readonly overrides: readonly StoredOverride[] }> {
  const rows = await orm(pool)
    .select({ ...versionOnly, override: limitOverrides })
    .from(limitOverridesVersion)
    .leftJoin(limitOverrides, sql`true`)
  const overrides = rows.flatMap(({ override }) => (override && isKnown(override) ? [override] : []))
  return { version: versionIn(rows), overrides }
}

/** Reads a tenant's overrides, including expired ones. */
export async function findOverrides(
  connection: Pool | PoolClient,
  tenantId: TenantId,
): Promise<readonly StoredOverride[]> {
  const { limit, tenantId: owner } = limitOverrides
  const rows = await orm(connection)
    .select()
    .from(limitOverrides)
    .where(eq(owner, tenantId))
    .orderBy(asc(limit))
  return rows.filter(isKnown)
}

function versionIn([row]: readonly { readonly version: number }[]): number {
  if (!row) throw new Error('the table limit_overrides_version has no row: run latchkey migrate')
  return row.version
}

function isKnown(row: typeof limitOverrides.$inferSelect): row is StoredOverride {
  return parseLimitName(row.limit) !== undefined
}

import type { Clock, TenantId } from '#internal/base/index.ts'
import { type Pool, type RedisConnection, withTx } from '#internal/storage/index.ts'
import { type LimitName, limitAmountMax, limitNames } from '#internal/tenants/index.ts'
import {
  countOtherOverrides,
  lockLiveTenant,
  lockOverrides,
  overridesMax,
  removeOverride,
  writeOverride,
} from './override-store.ts'

/** The channel on which whoever wrote overrides says so, for all processes. The message means nothing. */
export const limitsChannel = 'latchkey:limits'

/** Tells all processes that overrides changed. Repeating it is harmless. @throws RedisUnavailable: they will poll */
export async function tellLimits(redis: RedisConnection): Promise<void> {
  await redis.publish(limitsChannel, '')
}

/** What overrides are written with. */
export interface OverrideParts {
  readonly pool: Pool
  readonly clock: Clock
}

/** Which override goes, and by whose hand. */
export interface OverrideClearing {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** Who does it, for the audit log: 1 to 200 printable characters. */
  readonly by: string
}

/** Which hard limit holds until when, and why. */
export interface OverrideSetting extends OverrideClearing {
  /** `null`: no limit for that time. */
  readonly hard: number | null
  /** Milliseconds since the epoch: later than now, and at most a year. */
  readonly untilMs: number
  /** 1 to 500 printable characters. */
  readonly reason: string
}

/** What became of a write. `existed`: there was one to clear. */
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
  if (!byPattern.test(by)) return 'Who writes has to be named, in 1 to 200 printable characters'
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

import type { LimitName, Limits } from '#internal/tenants/index.ts'

/** The name of a limit that an acquisition can meet. */
export type LockLimitName = 'locksPerMinute' | 'locksPerMonth' | 'recordBytes'
/** The name of a limit that an event can meet. */
export type EventLimitName = 'eventsPerMinute' | 'eventsPerMonth'

/** A limit in force; `null` is none. */
export interface LimitBounds {
  /** From here on the tenant is warned of. */
  readonly soft: number | null
  /** This much may be used. */
  readonly hard: number | null
}

/** All limits in force for a tenant. */
export interface EffectiveLimits extends Readonly<Record<LimitName, LimitBounds>> {
  readonly eventsPerMonth: LimitBounds & { readonly over: 'accept' | 'refuse' }
}

/** Hard limits that the acquire script checks; `null` is none. `recordBytes`: key, text and overhead of all records and locks in Redis. */
export type LockLimits = Readonly<Record<LockLimitName, number | null>>

/** A hard limit that holds for a time in place of the tenant's own. */
export interface LimitOverride {
  readonly limit: LimitName
  /** `null`: no limit for that time. */
  readonly hard: number | null
  /** Milliseconds since the epoch; from then on it means nothing. */
  readonly untilMs: number
}

/** What decides about a tenant's limits, strongest first: overrides for hard ones, its own spec, the defaults that were set. */
export interface LimitSources {
  readonly overrides: readonly LimitOverride[]
  readonly spec: Limits
  /** What was set for tenants that leave a limit open; what it leaves open too is built in. */
  readonly defaults: Limits
  readonly nowMs: number
}

const builtInHard: Partial<Record<LimitName, number>> = { locksPerMinute: 60_000, recordBytes: 1024 ** 3 }

/** The limits in force: soft and hard by themselves, each from the strongest source that has it. Pure. */
export function effectiveLimits({ overrides, spec, defaults, nowMs }: LimitSources): EffectiveLimits {
  const bounds = (name: LimitName): LimitBounds => {
    const override = overrides.find(({ limit, untilMs }) => limit === name && untilMs > nowMs)
    const own = spec[name]?.hard ?? defaults[name]?.hard ?? builtInHard[name] ?? null
    return {
      soft: spec[name]?.soft ?? defaults[name]?.soft ?? null,
      hard: override ? override.hard : own,
    }
  }
  const over = (spec.eventsPerMonth ?? defaults.eventsPerMonth)?.over ?? 'accept'
  return {
    locksPerMinute: bounds('locksPerMinute'),
    locksPerMonth: bounds('locksPerMonth'),
    eventsPerMinute: bounds('eventsPerMinute'),
    eventsPerMonth: { ...bounds('eventsPerMonth'), over },
    recordBytes: bounds('recordBytes'),
  }
}

/** The hard ones among the limits of locks. */
export function hardLockLimits(limits: EffectiveLimits): LockLimits {
  return {
    locksPerMinute: limits.locksPerMinute.hard,
    locksPerMonth: limits.locksPerMonth.hard,
    recordBytes: limits.recordBytes.hard,
  }
}

/** A limit's name and window as they stand in the `RateLimit` fields. */
const policies: Record<LimitName, { readonly name: string; readonly window: string }> = {
  locksPerMinute: { name: 'locks-per-minute', window: ';w=60' },
  // A month's length differs, and recordBytes has no window: they leave `w` out, as the draft allows.
  locksPerMonth: { name: 'locks-per-month', window: '' },
  eventsPerMinute: { name: 'events-per-minute', window: ';w=60' },
  eventsPerMonth: { name: 'events-per-month', window: '' },
  recordBytes: { name: 'record-bytes', window: ';qu="content-bytes"' },
}

/**
 * The header fields of an answer that a limit refused, as structured fields of
 * https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10 (read 2026-11), and `Retry-After` in
 * seconds.
 */
export function limitHeaders(limit: LimitName, quota: number, retryAfterMs: number): Record<string, string> {
  const { name, window } = policies[limit]
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000))
  return {
    'Retry-After': String(seconds),
    RateLimit: `"${name}";r=0;t=${seconds}`,
    'RateLimit-Policy': `"${name}";q=${quota}${window}`,
  }
}

import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { LimitName, Limits } from '#internal/tenants/index.ts'
import { readOverrides, readOverridesVersion } from './overrides.ts'

/** The name of a limit that an acquisition can meet. */
export type LockLimitName = 'locksPerMinute' | 'locksPerMonth' | 'recordBytes'
/** The name of a limit that an event can meet. */
export type EventLimitName = 'eventsPerMinute' | 'eventsPerMonth'

/** A limit in force; `null` is none. */
export interface LimitBounds {
  /** Usage at which the tenant's soft limit is reported. */
  readonly soft: number | null
  /** Maximum usage. */
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
  /** End of the override, ms since the epoch. */
  readonly untilMs: number
}

/** Sources of a tenant's limits, strongest first: overrides (hard limits only), its spec, the defaults. */
export interface LimitSources {
  readonly overrides: readonly LimitOverride[]
  readonly spec: Limits
  /** Runtime settings for limits that the spec leaves open; the built-in ones apply after them. */
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

/** Options of `LimitsInForce`. The caller closes the pool. */
export interface LimitsInForceOptions {
  readonly pool: Pool
  readonly clock: Clock
  /**
   * Returns the defaults for limits that a spec leaves open. Called on each look-up; cached limits stay valid while it returns the
   * same object. Default: none.
   */
  defaults?(): Limits
}

/** Tenant with the limits of its spec. */
export interface LimitedTenant {
  readonly id: TenantId
  readonly limits: Limits
}

/** Limits of a tenant: all of them, and the hard ones of locks. */
export interface TenantLimits {
  readonly all: EffectiveLimits
  /** The hard ones that the acquire script checks. */
  readonly locks: LockLimits
}

interface Overridden {
  readonly spec: Limits
  readonly limits: TenantLimits
  /** End of the override that ends first, ms since the epoch. */
  readonly untilMs: number
}

const nothingSet: Limits = Object.freeze({})

/**
 * The limits of all tenants in memory: spec, defaults and overrides. What is worked out is kept, since every acquisition asks. While
 * Postgres is away the overrides that were read last stay, and lapse in their time.
 */
export class LimitsInForce {
  readonly #options: LimitsInForceOptions
  readonly #defaultsNow: () => Limits
  #defaults = nothingSet
  #version: number | undefined
  #overrides: ReadonlyMap<TenantId, readonly LimitOverride[]> = new Map()
  /** By the spec's limits, which equal tenants share. */
  #plain = new WeakMap<Limits, TenantLimits>()
  /** No more than there are overrides. */
  readonly #overridden = new Map<TenantId, Overridden>()

  constructor(options: LimitsInForceOptions) {
    this.#options = options
    this.#defaultsNow = options.defaults ? () => options.defaults?.() ?? nothingSet : () => nothingSet
  }

  /** A tenant's limits at this moment. Costs a look-up or two in memory. */
  of(tenant: LimitedTenant): TenantLimits {
    const defaults = this.#defaultsNow()
    if (defaults !== this.#defaults) this.#forget(defaults)
    if (this.#overrides.size > 0) {
      const overrides = this.#overrides.get(tenant.id)
      if (overrides) return this.#ofOverridden(tenant, overrides)
    }
    let limits = this.#plain.get(tenant.limits)
    if (!limits) this.#plain.set(tenant.limits, (limits = this.#make(tenant, [])))
    return limits
  }

  /** Looks whether overrides have changed: one row of Postgres, and all overrides when they have. For `superviseLoop`. */
  async look(): Promise<void> {
    // Another number, not only a higher one: a restored database goes back.
    if (this.#version !== undefined && (await readOverridesVersion(this.#options.pool)) === this.#version)
      return
    const { version, overrides } = await readOverrides(this.#options.pool)
    this.#overrides = Map.groupBy(overrides, ({ tenantId }) => tenantId)
    this.#overridden.clear()
    this.#version = version
  }

  #forget(defaults: Limits): void {
    this.#defaults = defaults
    this.#plain = new WeakMap()
    this.#overridden.clear()
  }

  #ofOverridden(tenant: LimitedTenant, overrides: readonly LimitOverride[]): TenantLimits {
    const nowMs = this.#options.clock.now()
    const known = this.#overridden.get(tenant.id)
    if (known && known.spec === tenant.limits && nowMs < known.untilMs) return known.limits
    const limits = this.#make(tenant, overrides)
    const ends = overrides.map(({ untilMs }) => untilMs).filter((untilMs) => untilMs > nowMs)
    this.#overridden.set(tenant.id, { spec: tenant.limits, limits, untilMs: Math.min(...ends) })
    return limits
  }

  #make({ limits: spec }: LimitedTenant, overrides: readonly LimitOverride[]): TenantLimits {
    const nowMs = this.#options.clock.now()
    const all = effectiveLimits({ overrides, spec, defaults: this.#defaults, nowMs })
    return { all, locks: hardLockLimits(all) }
  }
}

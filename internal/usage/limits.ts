import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { LimitName, Limits } from '#internal/tenants/index.ts'
import { readOverrides, readOverridesVersion, type StoredOverride } from './overrides.ts'

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

type Override = Pick<StoredOverride, 'limit' | 'hard' | 'untilMs'>

/** Sources of a tenant's limits, strongest first: overrides (hard limits only), its spec, the defaults. */
export interface LimitSources {
  readonly overrides: readonly Override[]
  readonly spec: Limits
  /** Runtime settings for limits that the spec leaves open; the built-in ones apply after them. */
  readonly defaults: Limits
  readonly nowMs: number
}

const builtInHard: Partial<Record<LimitName, number>> = { locksPerMinute: 60_000, recordBytes: 1024 ** 3 }

/** Decides the limits in force: soft and hard separately, each from the strongest source that has it. */
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

/** Name and window of a limit in the `RateLimit` fields. */
const policies: Record<LimitName, { readonly name: string; readonly window: string }> = {
  locksPerMinute: { name: 'locks-per-minute', window: ';w=60' },
  // A month's length differs, and recordBytes has no window: they leave `w` out, as the draft allows.
  locksPerMonth: { name: 'locks-per-month', window: '' },
  eventsPerMinute: { name: 'events-per-minute', window: ';w=60' },
  eventsPerMonth: { name: 'events-per-month', window: '' },
  recordBytes: { name: 'record-bytes', window: ';qu="content-bytes"' },
}

/**
 * Returns the header fields of a refusal: `Retry-After` in seconds, and the structured fields of
 * https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10 (read 2026-11).
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
  /** Returns the limits for specs that leave them open; a change is a new object. Called on each look-up. Default: none. */
  defaults?(): Limits
}

/** Tenant with the limits of its spec. */
export interface LimitedTenant {
  readonly id: TenantId
  readonly limits: Limits
}

/** Limits of a tenant: all of them, and the hard ones that the acquire script checks. */
export interface TenantLimits {
  readonly all: EffectiveLimits
  readonly locks: LockLimits
}

const nothingSet: Limits = Object.freeze({})

/**
 * Limits of all tenants in memory: spec, defaults and overrides. While Postgres is unavailable the last overrides stay, and expire by
 * the clock. Its owner polls `look`.
 */
export class LimitsInForce {
  readonly #options: LimitsInForceOptions
  #defaults = nothingSet
  #version: number | undefined
  #overrides: ReadonlyMap<TenantId, readonly Override[]> = new Map()
  /** Limits without overrides by the spec's limits, which equal tenants share: every acquisition asks. */
  #plain = new WeakMap<Limits, TenantLimits>()

  constructor(options: LimitsInForceOptions) {
    this.#options = options
  }

  /** Returns a tenant's limits now. Two look-ups in memory, except for a tenant with overrides. */
  of({ id, limits: spec }: LimitedTenant): TenantLimits {
    const defaults = this.#options.defaults?.() ?? nothingSet
    if (defaults !== this.#defaults) {
      this.#defaults = defaults
      this.#plain = new WeakMap()
    }
    const overrides = this.#overrides.size > 0 ? this.#overrides.get(id) : undefined
    if (overrides) return limitsOf({ overrides, spec, defaults, nowMs: this.#options.clock.now() })
    let limits = this.#plain.get(spec)
    if (!limits) this.#plain.set(spec, (limits = limitsOf({ overrides: [], spec, defaults, nowMs: 0 })))
    return limits
  }

  /** Reads the version of overrides, and all of them if it changed. @throws errors of Postgres; the last overrides stay */
  async look(): Promise<void> {
    const { pool } = this.#options
    // Any other version, not only a higher one: a restored database goes back.
    if (this.#version !== undefined && (await readOverridesVersion(pool)) === this.#version) return
    const { version, overrides } = await readOverrides(pool)
    this.#overrides = Map.groupBy(overrides, ({ tenantId }) => tenantId)
    this.#version = version
  }
}

function limitsOf(sources: LimitSources): TenantLimits {
  const all = effectiveLimits(sources)
  const { locksPerMinute, locksPerMonth, recordBytes } = all
  return {
    all,
    locks: {
      locksPerMinute: locksPerMinute.hard,
      locksPerMonth: locksPerMonth.hard,
      recordBytes: recordBytes.hard,
    },
  }
}

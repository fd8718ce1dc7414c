import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Limits } from '#internal/tenants/index.ts'
import {
  type EffectiveLimits,
  effectiveLimits,
  hardLockLimits,
  type LimitOverride,
  type LockLimits,
} from './limits.ts'
import { readOverrides, readOverridesVersion } from './override-store.ts'

/** What limits in force are made of. The pool stays its owner's. */
export interface LimitsInForceOptions {
  readonly pool: Pool
  readonly clock: Clock
  /**
   * What was set for tenants that leave a limit open; asked for each look-up, and what was worked out before is kept as long as it
   * gives the same object. Default: nothing was set.
   */
  defaults?(): Limits
}

/** Whose limits: a tenant of the directory. */
export interface LimitedTenant {
  readonly id: TenantId
  readonly limits: Limits
}

/** A tenant's limits in the two forms in which they are needed. */
export interface TenantLimits {
  readonly all: EffectiveLimits
  /** The hard ones that the acquire script checks. */
  readonly locks: LockLimits
}

interface Overridden {
  readonly spec: Limits
  readonly limits: TenantLimits
  /** When the first of its overrides lapses. */
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

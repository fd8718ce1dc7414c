import type { Clock, TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  type AnyLimitName,
  emittedKindOf,
  emittedLimitName,
  type LimitName,
  type Limits,
} from '#internal/tenants/index.ts'
import { readOverrides, readOverridesVersion, type StoredOverride } from './overrides.ts'

/** Name of a limit that a lock acquisition can exceed. */
export type LockLimitName = 'locksPerMinute' | 'locksPerMonth' | 'recordBytes'

/** `null` means no limit. */
export interface LimitBounds {
  /** Usage from which the soft limit is reported as reached. */
  readonly soft: number | null
  readonly hard: number | null
}

/** `over`: whether events over the month's hard limit are accepted. */
export interface EffectiveLimits extends Readonly<Record<LimitName, LimitBounds>> {
  readonly eventsPerMonth: LimitBounds & { readonly over: 'accept' | 'refuse' }
}

/** Hard limits that an acquisition checks; `null` means no limit. `recordBytes`: keys, texts and overhead in the store of new records. */
export type LockLimits = Readonly<Record<LockLimitName, number | null>>

/** Listed in order of precedence: overrides (hard limits only), the tenant's spec, the defaults. */
export interface LimitSources {
  readonly overrides: readonly Pick<StoredOverride, 'limit' | 'hard' | 'expiresAtMs'>[]
  readonly spec: Limits
  /** Limits that apply where the spec sets none. Where the defaults set none either, the built-in limits apply. */
  readonly defaults: Limits
  readonly nowMs: number
}

const builtInHard: Partial<Record<LimitName, number>> = { locksPerMinute: 60_000, recordBytes: 1024 ** 3 }

/** Decides soft and hard limits separately, each from the first source that sets a value. */
export function effectiveLimits(sources: LimitSources): EffectiveLimits {
  const { spec, defaults } = sources
  const bounds = (name: LimitName): LimitBounds =>
    boundsOf(sources, name, [spec[name], defaults[name], { hard: builtInHard[name] }])
  const over = (spec.eventsPerMonth ?? defaults.eventsPerMonth)?.over ?? 'accept'
  return {
    locksPerMinute: bounds('locksPerMinute'),
    locksPerMonth: bounds('locksPerMonth'),
    eventsPerMinute: bounds('eventsPerMinute'),
    eventsPerMonth: { ...bounds('eventsPerMonth'), over },
    recordBytes: bounds('recordBytes'),
  }
}

/** Decides the limits of emitted kinds, by kind in alphabetical order. A kind that no source limits is absent. */
export function emittedLimits(sources: LimitSources): ReadonlyMap<string, LimitBounds> {
  const byKind = (limits: Limits) => new Map((limits.emitted ?? []).map((limit) => [limit.kind, limit]))
  const [spec, defaults] = [byKind(sources.spec), byKind(sources.defaults)]
  const overridden = sources.overrides.flatMap(({ limit, expiresAtMs }) =>
    expiresAtMs > sources.nowMs ? (emittedKindOf(limit) ?? []) : [],
  )
  const kinds = [...new Set([...spec.keys(), ...defaults.keys(), ...overridden])].toSorted()
  return new Map(
    kinds.map((kind) => [
      kind,
      boundsOf(sources, emittedLimitName(kind), [spec.get(kind), defaults.get(kind)]),
    ]),
  )
}

/** @param given values of the sources below overrides, in order of precedence */
function boundsOf(
  { overrides, nowMs }: LimitSources,
  name: AnyLimitName,
  given: readonly ({ readonly soft?: number | undefined; readonly hard?: number | undefined } | undefined)[],
): LimitBounds {
  const override = overrides.find(({ limit, expiresAtMs }) => limit === name && expiresAtMs > nowMs)
  const first = (end: keyof LimitBounds) => given.find((each) => each?.[end] !== undefined)?.[end] ?? null
  return { soft: first('soft'), hard: override ? override.hard : first('hard') }
}

/** States of a limit, from free to exhausted. */
export const limitStates = ['ok', 'soft', 'overridden', 'hard'] as const
/** State of a limit. */
export type LimitState = (typeof limitStates)[number]

/**
 * Returns null while the usage is unknown. `hard`: the hard limit that applies, the tenant's or an override's, is reached. `overridden`: an
 * override applies and is not exhausted. `soft`: the soft limit is reached. Pure.
 */
export function limitState({
  used,
  soft,
  hard,
  override,
}: LimitBounds & {
  readonly used: number | null
  readonly override: unknown
}): LimitState | null {
  if (used !== null && hard !== null && used >= hard) return 'hard'
  if (override !== undefined) return 'overridden'
  if (used === null) return null
  return soft !== null && used >= soft ? 'soft' : 'ok'
}

/** Names and windows in the `RateLimit` header fields. */
const policies: Record<LimitName, { readonly name: string; readonly window: string }> = {
  locksPerMinute: { name: 'locks-per-minute', window: ';w=60' },
  // Months differ in length and recordBytes has no window, so these limits omit `w`, as the draft allows.
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

export interface LimitedTenant {
  readonly id: TenantId
  readonly limits: Limits
}

export interface TenantLimits {
  readonly all: EffectiveLimits
  readonly locks: LockLimits
  /** Limits of emitted kinds, computed on each access, because acquisitions do not need them. */
  readonly emitted: ReadonlyMap<string, LimitBounds>
  /** Overrides of the tenant, including expired ones. */
  readonly overrides: readonly StoredOverride[]
}

const nothingSet: Limits = Object.freeze({})

/**
 * Decides limits of all tenants in memory, from specs, defaults and overrides. While Postgres is unavailable, the overrides that were read
 * last apply until they expire. The owner must call `look` periodically.
 */
export class LimitsInForce {
  readonly #options
  #defaults = nothingSet
  #version: number | undefined
  #overrides: ReadonlyMap<TenantId, readonly StoredOverride[]> = new Map()
  /** Limits without overrides, by the `limits` object of the spec, which tenants with equal limits share. Read by every acquisition. */
  #plain = new WeakMap<Limits, TenantLimits>()

  constructor(options: {
    readonly pool: Pool
    readonly clock: Clock
    /** Limits of tenants whose specs set none. Default: only the built-in limits. */
    readonly settings?: { follow(apply: (settings: { readonly limits: Limits }) => void): void }
  }) {
    this.#options = options
    options.settings?.follow(({ limits }) => {
      if (limits === this.#defaults) return
      this.#defaults = limits
      this.#plain = new WeakMap()
    })
  }

  /** Returns the limits of a tenant. Needs only two look-ups in memory, unless the tenant has overrides. */
  of({ id, limits: spec }: LimitedTenant): TenantLimits {
    const defaults = this.#defaults
    const overrides = this.#overrides.size > 0 ? this.#overrides.get(id) : undefined
    if (overrides) return limitsOf({ overrides, spec, defaults, nowMs: this.#options.clock.now() })
    let limits = this.#plain.get(spec)
    if (!limits) this.#plain.set(spec, (limits = limitsOf({ overrides: [], spec, defaults, nowMs: 0 })))
    return limits
  }

  /** Reads the overrides if their version changed. @throws errors of Postgres; the overrides that were read last then still apply */
  async look(): Promise<void> {
    const { pool } = this.#options
    // Any different version is a change, because a restored database can have a lower one.
    if (this.#version !== undefined && (await readOverridesVersion(pool)) === this.#version) return
    const { version, overrides } = await readOverrides(pool)
    this.#overrides = Map.groupBy(overrides, ({ tenantId }) => tenantId)
    this.#version = version
  }
}

function limitsOf(sources: LimitSources & { readonly overrides: readonly StoredOverride[] }): TenantLimits {
  const all = effectiveLimits(sources)
  const { locksPerMinute, locksPerMonth, recordBytes } = all
  return {
    all,
    locks: {
      locksPerMinute: locksPerMinute.hard,
      locksPerMonth: locksPerMonth.hard,
      recordBytes: recordBytes.hard,
    },
    get emitted() {
      return emittedLimits(sources)
    },
    overrides: sources.overrides,
  }
}

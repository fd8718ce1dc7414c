import type { Pool } from 'pg'
import { type Clock, type TenantId } from '#internal/base/index.ts'
import { defineScript, type RedisConnection, type RedisScript } from '#internal/storage/index.ts'
import type { LimitName } from '#internal/tenants/index.ts'
import type { EffectiveLimits } from './limits.ts'
import {
  defineSeedScript,
  defineUsageScript,
  meterKeys,
  readMeters,
  seedMeter,
  type UsageReading,
  type WindowCount,
} from './reading.ts'
import forget from './scripts/forget.lua' with { type: 'text' }
import {
  findEpochs,
  type HourOfUsage,
  saveEpochs,
  saveHours,
  saveSoftCrossings,
  type TenantEpoch,
  usageRowsMax,
} from './store.ts'

/** Options of `Meter`. */
export interface MeterOptions {
  readonly redis: RedisConnection
  readonly pool: Pool
  readonly clock: Clock
  /** Called once for each loss of a tenant's data in Redis. */
  readonly onEpochLost: (tenantId: TenantId) => void
  /** A tenant's limits, of which the soft ones are looked after here; undefined for one that is not known. Default: none are. */
  limitsOf?(tenantId: TenantId): EffectiveLimits | undefined
  /** Called for a soft limit that was reached, in one process and once per period. Must not throw. */
  onSoftCrossing?(crossing: SoftCrossing): void
  /** Lua that defines `clock()`, for tests that move it. */
  readonly clockSource?: string
}

/** Maximum crossings remembered as reported; above it the memory is cleared, and Postgres still holds them. */
const toldMax = 10_000

/**
 * A tenant's counts of locks: they live in Redis, where the acquire script reads and raises them, and are rolled up into
 * Postgres, from which they are seeded when Redis has lost them. Rolls up the counts of events, too.
 */
export class Meter {
  readonly #options: MeterOptions
  readonly #seed: RedisScript
  readonly #usage: RedisScript
  readonly #seeding = new Map<TenantId, Promise<void>>()
  readonly #told = new Set<string>()
  #used = new Set<TenantId>()

  constructor(options: MeterOptions) {
    this.#options = options
    this.#seed = defineSeedScript(options.clockSource)
    this.#usage = defineUsageScript(options.clockSource)
  }

  /** Notes that a tenant took locks or had events, so that the next flush looks at it. */
  markUsed(tenantId: TenantId): void {
    this.#used.add(tenantId)
  }

  /**
   * Gives a tenant its meters in Redis. Calls for one tenant share one attempt; of several processes one wins.
   * @throws when Postgres or Redis does not answer: nothing is locked without meters; and for a deleted tenant
   */
  seed(tenantId: TenantId): Promise<void> {
    const running = this.#seeding.get(tenantId)
    if (running) return running
    const attempt = this.#seedOnce(tenantId).finally(() => this.#seeding.delete(tenantId))
    this.#seeding.set(tenantId, attempt)
    return attempt
  }

  async #seedOnce(tenantId: TenantId): Promise<void> {
    const seeding = await seedMeter(this.#options, this.#seed, tenantId, 'locks')
    // A process that does not know of the deletion yet must not restore what was purged.
    if (seeding.kind === 'deleted') throw new Error('the tenant is deleted: it gets no meters')
    // The process that lost the race writes the winner's epoch too, so that a winner that dies here leaves nothing unwritten.
    await this.#saveEpochs([{ tenantId, epoch: seeding.epoch, known: seeding.known }])
    this.markUsed(tenantId)
  }

  /**
   * Rolls the tenants that were marked since the last flush up into Postgres, by absolute values, and tells of the soft limits
   * that they have reached. Repeating it changes nothing. Tenants for whom it fails keep no other from being rolled up, and are
   * tried again by the next flush.
   * @throws the first failure, after all others were tried or two seconds have passed
   */
  async flush(): Promise<void> {
    const tenants = [...this.#used]
    this.#used = new Set()
    const { failed, left } = await inTurns(tenants, this.#options.clock, (some) => this.#flushTenants(some))
    const [first] = failed
    if (!first) return
    this.#used = new Set([...left, ...this.#used, ...failed.map(({ each }) => each)])
    throw first.error
  }

  /** Gives those for whom it failed: one whose meters cannot be read alone, all of them where Postgres does not write. */
  async #flushTenants(tenants: readonly TenantId[]): Promise<readonly Failure<TenantId>[]> {
    const { pool, redis } = this.#options
    try {
      // Before Redis is asked, so that an epoch which is remembered meanwhile is known to be the later one.
      const known = await findEpochs(pool, tenants)
      const { done, failed } = await settleEach(tenants, (each) => readMeters(redis, this.#usage, each))
      await this.#saveReadings(done, known)
      return failed
    } catch (error) {
      return tenants.map((each) => ({ each, error }))
    }
  }

  async #saveReadings(
    readings: readonly UsageReading[],
    known: ReadonlyMap<TenantId, string>,
  ): Promise<void> {
    const hours = readings.flatMap(hoursOf)
    for (let at = 0; at < hours.length; at += usageRowsMax) {
      await saveHours(this.#options.pool, hours.slice(at, at + usageRowsMax))
    }
    const epochs = readings.flatMap(({ tenantId, epoch }): TenantEpoch[] => {
      const before = known.get(tenantId)
      return epoch === undefined || epoch === before ? [] : [{ tenantId, epoch, known: before }]
    })
    if (epochs.length > 0) await this.#saveEpochs(epochs)
    await this.#tellOfSoftLimits(readings)
  }

  async #saveEpochs(epochs: readonly TenantEpoch[]): Promise<void> {
    for (const tenantId of await saveEpochs(this.#options.pool, epochs)) this.#options.onEpochLost(tenantId)
  }

  async #tellOfSoftLimits(readings: readonly UsageReading[]): Promise<void> {
    const { limitsOf, onSoftCrossing, pool } = this.#options
    const crossings = readings.flatMap((reading) => {
      const limits = limitsOf?.(reading.tenantId)
      return limits ? softCrossings(reading, limits).filter((each) => !this.#told.has(nameOf(each))) : []
    })
    if (crossings.length === 0) return
    const first = await saveSoftCrossings(pool, crossings)
    if (this.#told.size + crossings.length > toldMax) this.#told.clear()
    for (const crossing of crossings) this.#told.add(nameOf(crossing))
    for (const crossing of first) onSoftCrossing?.(crossing)
  }
}

function hoursOf({ tenantId, locks, events }: UsageReading): HourOfUsage[] {
  const ofLocks = (locks?.hours ?? []).map((each) => ({ ...each, tenantId, meter: 'locks' as const }))
  const ofEvents = (events?.hours ?? []).map((each) => ({ ...each, tenantId, meter: 'events' as const }))
  return [...ofLocks, ...ofEvents].filter(({ amount }) => amount > 0)
}

function nameOf({ tenantId, limit, periodMs }: SoftCrossing): string {
  return `${tenantId} ${limit} ${periodMs}`
}

/** Item for which the work failed. */
export interface Failure<T> {
  readonly each: T
  readonly error: unknown
}

/** Rest of the work after one pass. */
export interface TurnsTaken<T> {
  readonly failed: readonly Failure<T>[]
  /** Items not started because time was up. They come first in the next pass. */
  readonly left: readonly T[]
}

const parallelMax = 64
/** Failures may take until a time-out each: once there are some, nothing more is begun after so long. */
const failingMsMax = 2_000

/**
 * Does work for some at a time, at most 64. One that fails keeps none of the others from theirs, unless failing takes over two
 * seconds: then the rest is left.
 * @param work gives those for whom it failed; does not throw
 */
export async function inTurns<T>(
  all: readonly T[],
  clock: Clock,
  work: (some: readonly T[]) => Promise<readonly Failure<T>[]>,
): Promise<TurnsTaken<T>> {
  const endMs = clock.now() + failingMsMax
  const failed: Failure<T>[] = []
  for (let at = 0; at < all.length; at += parallelMax) {
    if (failed.length > 0 && clock.now() > endMs) return { failed, left: all.slice(at) }
    failed.push(...(await work(all.slice(at, at + parallelMax))))
  }
  return { failed, left: [] }
}

/** Does work for each at the same time, and waits for all of them. Never throws. */
export async function settleEach<T, R>(
  some: readonly T[],
  work: (each: T) => Promise<R>,
): Promise<{ readonly done: readonly R[]; readonly failed: readonly Failure<T>[] }> {
  const done: R[] = []
  const failed: Failure<T>[] = []
  const one = async (each: T) => {
    try {
      done.push(await work(each))
    } catch (error) {
      failed.push({ each, error })
    }
  }
  await Promise.all(some.map(one))
  return { done, failed }
}

/** A soft limit that was reached in a period. */
export interface SoftCrossing {
  readonly tenantId: TenantId
  readonly limit: LimitName
  /** Start of the period: a minute, a month, or a day for record bytes. UTC, ms since the epoch. */
  readonly periodMs: number
  readonly used: number
  readonly soft: number
}

const dayMs = 86_400_000

/** The soft limits that a tenant has reached, in the running periods and in those that ended last. Pure. */
export function softCrossings(reading: UsageReading, limits: EffectiveLimits): SoftCrossing[] {
  const { locks, events, nowMs, recordBytes, tenantId } = reading
  const today = { startMs: nowMs - (nowMs % dayMs), count: recordBytes }
  const periods: Record<LimitName, readonly Pick<WindowCount, 'startMs' | 'count'>[]> = {
    locksPerMinute: locks?.minutes ?? [],
    locksPerMonth: locks?.months ?? [],
    eventsPerMinute: events?.minutes ?? [],
    eventsPerMonth: events?.months ?? [],
    recordBytes: locks ? [today] : [],
  }
  return (Object.keys(periods) as LimitName[]).flatMap((limit) => {
    const { soft } = limits[limit]
    if (soft === null) return []
    return periods[limit].flatMap(({ startMs, count }) =>
      count > 0 && count >= soft ? [{ tenantId, limit, periodMs: startMs, used: count, soft }] : [],
    )
  })
}

// Frees memory, so it runs also when Redis is full.
const forgetScript = defineScript('forget', 'allow-oom', [forget])

/**
 * Removes what Redis keeps of a deleted tenant without an expiry: its meters. No process gives it new ones, since seeding
 * refuses a deleted tenant; its records and locks expire by themselves. Repeating it is harmless. @throws RedisUnavailable
 */
export async function forgetMeters(redis: RedisConnection, tenantId: TenantId): Promise<void> {
  const { meta, side, events } = meterKeys(tenantId)
  await redis.evaluate(forgetScript, [meta, side, events], [])
}

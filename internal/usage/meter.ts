import type { TenantId } from '#internal/base/index.ts'
import {
  defineScript,
  type RedisConnection,
  type RedisScript,
  RedisUnavailable,
} from '#internal/storage/index.ts'
import type { AnyLimitName, LimitName } from '#internal/tenants/index.ts'
import { type CurrentUsage, currentUsage } from './current-usage.ts'
import { readDurableMeters } from './durable-meters.ts'
import { EventMeter } from './event-meter.ts'
import type { EffectiveLimits } from './limits.ts'
import {
  defineSeedScript,
  defineUsageScript,
  type Failure,
  inTurns,
  type MeterParts,
  meterKeys,
  readMeters,
  seedMeter,
  settleEach,
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

/** Maximum number of reported soft limit crossings in memory. Above it, all are forgotten, and only Postgres prevents a second report. */
const reportedMax = 10_000

/**
 * Meters the usage of tenants in Redis: the scripts of records count locks and bytes, and `events` counts events. Writes the counts (also
 * those of locks in Postgres) to Postgres by hour, and restores them after Redis has lost its data.
 */
export class Meter {
  readonly events: EventMeter
  readonly #options
  readonly #seed: RedisScript
  readonly #usage: RedisScript
  readonly #seeding = new Map<TenantId, Promise<void>>()
  readonly #reported = new Set<string>()
  #used = new Set<TenantId>()

  constructor(
    options: MeterParts & {
      /** Process, as actor for the audit log. */
      readonly actor: string
      /** Called once for each loss of a tenant's data in Redis. */
      readonly onEpochLost: (tenantId: TenantId) => void
      /** Returns the limits of a tenant. Each flush checks its soft limits. Undefined for an unknown tenant. Default: no limits. */
      limitsOf?(tenantId: TenantId): EffectiveLimits | undefined
      /** Called in one process and once per period. Must not throw. */
      onSoftCrossing?(crossing: SoftCrossing): void
    },
  ) {
    this.#options = options
    this.#seed = defineSeedScript(options.clockSource)
    this.#usage = defineUsageScript(options.clockSource)
    this.events = new EventMeter(options, (tenantId) => this.markUsed(tenantId))
  }

  /** Includes a tenant in the next flush. */
  markUsed(tenantId: TenantId): void {
    this.#used.add(tenantId)
  }

  /**
   * Seeds meters of locks and bytes. Concurrent calls share one attempt, and one of several processes wins.
   * @throws RedisUnavailable if Postgres or Redis does not reply, because no lock may be granted without its limits, and for a deleted
   * tenant
   */
  seed(tenantId: TenantId): Promise<void> {
    const running = this.#seeding.get(tenantId)
    if (running) return running
    const attempt = this.#seedOnce(tenantId)
      .catch((error: unknown) => {
        throw error instanceof RedisUnavailable ? error : new RedisUnavailable('refused', error)
      })
      .finally(() => this.#seeding.delete(tenantId))
    this.#seeding.set(tenantId, attempt)
    return attempt
  }

  /** Bytes in Redis; 0 without meters. @throws RedisUnavailable */
  async recordBytes(tenantId: TenantId): Promise<number> {
    return (await readMeters(this.#options.redis, this.#usage, tenantId)).recordBytes
  }

  async #seedOnce(tenantId: TenantId): Promise<void> {
    const seeding = await seedMeter(this.#options, this.#seed, tenantId, 'locks')
    // Throws for a deleted tenant: a process may call this before it learns of the deletion.
    if (seeding.kind !== 'seeded')
      throw new Error(`cannot create usage meters: the tenant is ${seeding.kind}`)
    // Each of several seeding processes saves the epoch, in case the process that created the epoch dies before saving it.
    await this.#saveEpochs([{ tenantId, epoch: seeding.epoch, known: seeding.known }])
    this.markUsed(tenantId)
  }

  /**
   * Writes the counts of marked tenants to Postgres as absolute values, and reports reached soft limits. Repeating a flush changes nothing.
   * A tenant that fails does not delay others, and the next flush repeats it.
   * @throws the first failure, after all tenants are processed or two seconds have passed
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

  /** Returns the tenants that failed: those whose meters cannot be read, or all of them if Postgres cannot write. */
  async #flushTenants(tenants: readonly TenantId[]): Promise<readonly Failure<TenantId>[]> {
    const { pool, redis } = this.#options
    try {
      // Epochs are read before Redis. If another process saves a newer epoch in between, `saveEpochs` sees that `known` is outdated and
      // keeps the newer one.
      const [known, durable] = await Promise.all([
        findEpochs(pool, tenants),
        readDurableMeters(pool, tenants),
      ])
      const { done, failed } = await settleEach(tenants, (each) => readMeters(redis, this.#usage, each))
      await this.#saveHours(done.flatMap(hoursOf))
      await this.#saveEpochsOf(done, known)
      const inRedis = new Map(done.map((reading) => [reading.tenantId, reading]))
      await this.#reportSoftLimits(
        [...durable].map(([tenantId, reading]) => currentUsage(tenantId, inRedis.get(tenantId), reading)),
      )
      return failed
    } catch (error) {
      return tenants.map((each) => ({ each, error }))
    }
  }

  async #saveHours(hours: readonly HourOfUsage[]): Promise<void> {
    for (let at = 0; at < hours.length; at += usageRowsMax) {
      await saveHours(this.#options.pool, hours.slice(at, at + usageRowsMax))
    }
  }

  async #saveEpochsOf(
    readings: readonly UsageReading[],
    known: ReadonlyMap<TenantId, string>,
  ): Promise<void> {
    const epochs = readings.flatMap(({ tenantId, epoch }): TenantEpoch[] => {
      const before = known.get(tenantId)
      return epoch === undefined || epoch === before ? [] : [{ tenantId, epoch, known: before }]
    })
    if (epochs.length > 0) await this.#saveEpochs(epochs)
  }

  async #saveEpochs(epochs: readonly TenantEpoch[]): Promise<void> {
    const { pool, actor, onEpochLost } = this.#options
    for (const tenantId of await saveEpochs(pool, epochs, actor)) onEpochLost(tenantId)
  }

  async #reportSoftLimits(readings: readonly CurrentUsage[]): Promise<void> {
    const { limitsOf, onSoftCrossing, pool, actor } = this.#options
    const crossings = readings.flatMap((reading) => {
      const limits = limitsOf?.(reading.tenantId)
      return limits ? softCrossings(reading, limits).filter((each) => !this.#reported.has(nameOf(each))) : []
    })
    if (crossings.length === 0) return
    const first = await saveSoftCrossings(pool, crossings, actor)
    if (this.#reported.size + crossings.length > reportedMax) this.#reported.clear()
    for (const crossing of crossings) this.#reported.add(nameOf(crossing))
    for (const crossing of first) onSoftCrossing?.(crossing)
  }
}

function hoursOf({ tenantId, ...meters }: UsageReading): HourOfUsage[] {
  return (['locks', 'events'] as const).flatMap((meter) =>
    (meters[meter]?.hours ?? [])
      .filter(({ amount }) => amount > 0)
      .map((each) => ({ ...each, tenantId, meter })),
  )
}

function nameOf({ tenantId, limit, periodMs }: SoftCrossing): string {
  return `${tenantId} ${limit} ${periodMs}`
}

/** Soft limit that was reached in a period. */
export interface SoftCrossing {
  readonly tenantId: TenantId
  readonly limit: AnyLimitName
  /** Start of a UTC minute or month, or of a UTC day for record bytes. */
  readonly periodMs: number
  readonly used: number
  readonly soft: number
}

const dayMs = 86_400_000

/** Finds crossings of the current or the previous period. */
export function softCrossings(
  usage: Pick<CurrentUsage, 'tenantId' | 'nowMs' | 'locks' | 'events' | 'recordBytes'>,
  limits: EffectiveLimits,
): SoftCrossing[] {
  const { locks, events, nowMs, recordBytes, tenantId } = usage
  const periods: Record<LimitName, readonly Pick<WindowCount, 'startMs' | 'count'>[]> = {
    locksPerMinute: locks?.minutes ?? [],
    locksPerMonth: locks?.months ?? [],
    eventsPerMinute: events?.minutes ?? [],
    eventsPerMonth: events?.months ?? [],
    recordBytes: recordBytes === null ? [] : [{ startMs: nowMs - (nowMs % dayMs), count: recordBytes }],
  }
  return (Object.keys(periods) as LimitName[]).flatMap((limit) => {
    const { soft } = limits[limit]
    if (soft === null) return []
    return periods[limit].flatMap(({ startMs, count }) =>
      count > 0 && count >= soft ? [{ tenantId, limit, periodMs: startMs, used: count, soft }] : [],
    )
  })
}

// Runs even when Redis is full, because it frees memory.
const forgetScript = defineScript('forget', 'allow-oom', [forget])

/**
 * Removes the meters of a deleted tenant, which do not expire. Seeding refuses a deleted tenant. Repeating the call is safe.
 * @throws RedisUnavailable
 */
export async function forgetMeters(redis: RedisConnection, tenantId: TenantId): Promise<void> {
  const { meta, side, events } = meterKeys(tenantId)
  await redis.evaluate(forgetScript, [meta, side, events], [])
}

import type { Pool } from 'pg'
import { type Clock, randomToken, type TenantId } from '#internal/base/index.ts'
import { defineScript, type RedisConnection, type RedisScript } from '#internal/storage/index.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }
import seed from './scripts/seed.lua' with { type: 'text' }
import usage from './scripts/usage.lua' with { type: 'text' }
import {
  findEpochs,
  findLockUsage,
  type HourOfLocks,
  saveEpochs,
  saveHoursOfLocks,
  type TenantEpoch,
  usageRowsMax,
} from './store.ts'

/** What the meter needs. */
export interface MeterOptions {
  readonly redis: RedisConnection
  readonly pool: Pool
  readonly clock: Clock
  /** Hears of a tenant whose data in Redis was lost, once for each loss. */
  readonly onEpochLost: (tenantId: TenantId) => void
  /** Lua that defines `clock()`, for tests that move it. */
  readonly clockSource?: string
}

/** The keys of a tenant's meters: a packed string and the hash beside it. They share its hash tag with all of its records. */
export function meterKeys(tenantId: TenantId): { readonly meta: string; readonly side: string } {
  return { meta: `{${tenantId}}:meta`, side: `{${tenantId}}:side` }
}

/** Tenants that one flush asks Redis about at a time. */
const flushParallelMax = 64

/**
 * A tenant's counts of locks: they live in Redis, where the acquire script reads and raises them, and are rolled up into
 * Postgres, from which they are seeded when Redis has lost them.
 */
export class Meter {
  readonly #options: MeterOptions
  readonly #seed: RedisScript
  readonly #usage: RedisScript
  readonly #seeding = new Map<TenantId, Promise<void>>()
  #used = new Set<TenantId>()

  constructor(options: MeterOptions) {
    this.#options = options
    this.#seed = defineScript('seed', '', [options.clockSource ?? clockLua, meterLua, seed])
    this.#usage = defineScript('usage', 'no-writes', [meterLua, usage])
  }

  /** Notes that a tenant took locks, so that the next flush looks at it. */
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
    const { redis, pool, clock } = this.#options
    const nowMs = clock.now()
    const known = await findLockUsage(pool, tenantId, nowMs)
    // A process that has not heard of the deletion yet must not bring back what was purged: nobody would remove it again.
    if (known.deleted) throw new Error('the tenant is deleted: it gets no meters')
    const now = new Date(nowMs)
    const monthEnd = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) / 1000
    const values = [Math.floor(nowMs / 3_600_000), known.hourLocks, monthEnd, known.monthLocks]
    const reply = await redis.evaluate(
      this.#seed,
      [meterKeys(tenantId).meta],
      [randomToken(), ...values.map(String)],
    )
    const [, epoch] = reply as [string, string]
    // Whoever lost the race writes the winner's epoch, so that a winner that dies here leaves nothing unwritten.
    await this.#saveEpochs([{ tenantId, epoch, known: known.epoch }])
    this.markUsed(tenantId)
  }

  /**
   * Rolls the tenants that took locks since the last flush up into Postgres, by absolute values: repeating it changes
   * nothing, and what fails is tried again by the next flush.
   */
  async flush(): Promise<void> {
    const tenants = [...this.#used]
    this.#used = new Set()
    try {
      for (let at = 0; at < tenants.length; at += flushParallelMax) {
        await this.#flushTenants(tenants.slice(at, at + flushParallelMax))
      }
    } catch (error) {
      for (const tenantId of tenants) this.#used.add(tenantId)
      throw error
    }
  }

  async #flushTenants(tenants: readonly TenantId[]): Promise<void> {
    // Before Redis is asked, so that an epoch which is remembered meanwhile is known to be the later one.
    const known = await findEpochs(this.#options.pool, tenants)
    const replies = await Promise.all(
      tenants.map((tenantId) => {
        const { meta, side } = meterKeys(tenantId)
        return this.#options.redis.evaluate(this.#usage, [meta, side], [])
      }),
    )
    const epochs: TenantEpoch[] = []
    const hours: HourOfLocks[] = []
    replies.forEach((reply, index) => {
      const tenantId = tenants[index]
      const [kind, epoch, ...counts] = reply as string[]
      if (tenantId === undefined || kind !== 'usage' || epoch === undefined) return
      const before = known.get(tenantId)
      if (epoch !== before) epochs.push({ tenantId, epoch, known: before })
      for (let at = 0; at + 1 < counts.length; at += 2) {
        hours.push({ tenantId, hour: Number(counts[at]), amount: Number(counts[at + 1]) })
      }
    })
    for (let at = 0; at < hours.length; at += usageRowsMax) {
      await saveHoursOfLocks(this.#options.pool, hours.slice(at, at + usageRowsMax))
    }
    if (epochs.length > 0) await this.#saveEpochs(epochs)
  }

  async #saveEpochs(epochs: readonly TenantEpoch[]): Promise<void> {
    for (const tenantId of await saveEpochs(this.#options.pool, epochs)) this.#options.onEpochLost(tenantId)
  }
}

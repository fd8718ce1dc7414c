import { type Clock, monthEndMs, monthStartMs, randomToken, type TenantId } from '#internal/base/index.ts'
import { defineScript, type Pool, type RedisConnection, type RedisScript } from '#internal/storage/index.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import eventsLua from './scripts/events.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }
import seed from './scripts/seed.lua' with { type: 'text' }
import usage from './scripts/usage.lua' with { type: 'text' }
import { findUsage } from './store.ts'

/** The caller closes the Redis connection and the pool. */
export interface MeterParts {
  readonly redis: RedisConnection
  readonly pool: Pool
  readonly clock: Clock
  /** Lua that defines `clock()`; tests use it to move the clock. */
  readonly clockSource?: string
}

export type MeterName = 'locks' | 'events'

export interface WindowCount {
  readonly startMs: number
  readonly endMs: number
  readonly count: number
}

/** Counts of the latest minute and month with usage, which may have ended, and of the minute and month before them. */
export interface MeterWindows {
  readonly minutes: readonly WindowCount[]
  readonly months: readonly WindowCount[]
}

export interface MeterReading extends MeterWindows {
  /** Hours since the Unix epoch, latest first. */
  readonly hours: readonly { readonly hour: number; readonly amount: number }[]
}

/** Meters of a tenant in Redis. Times are by Redis' clock. */
export interface UsageReading {
  readonly tenantId: TenantId
  readonly nowMs: number
  /** Changes when the tenant's data in Redis is lost and created anew; undefined without a meter of locks. */
  readonly epoch: string | undefined
  readonly recordBytes: number
  readonly locks: MeterReading | undefined
  readonly events: MeterReading | undefined
}

/** @param clockSource Lua that defines `clock()` */
export function defineUsageScript(clockSource: string = clockLua): RedisScript {
  return defineScript('usage', 'no-writes', [clockSource, meterLua, eventsLua, usage])
}

/** @param clockSource Lua that defines `clock()` */
export function defineSeedScript(clockSource: string = clockLua): RedisScript {
  return defineScript('seed', '', [clockSource, meterLua, eventsLua, seed])
}

/**
 * Creates a tenant's meter in Redis from the counts of the current hour and month in Postgres. Of several concurrent processes one wins; a
 * repeat changes nothing. A deleted tenant, whose purge may have finished, gets no meter, nor does one whose records have moved away from
 * Redis. `epoch`: id of the tenant's current data in Redis, '' for events; `known`: epoch that Postgres had before.
 * @throws RedisUnavailable, and errors of Postgres
 */
export async function seedMeter(
  { redis, pool, clock }: MeterParts,
  script: RedisScript,
  tenantId: TenantId,
  meter: MeterName,
): Promise<
  | { readonly kind: 'seeded'; readonly epoch: string; readonly known: string | undefined }
  | { readonly kind: 'deleted' | 'moved' }
> {
  const nowMs = clock.now()
  const stored = await findUsage(pool, tenantId, meter, nowMs)
  if (stored.deleted) return { kind: 'deleted' }
  if (meter === 'locks' && stored.place === undefined) return { kind: 'moved' }
  const keys = meterKeys(tenantId)
  const [key, newEpoch] = meter === 'locks' ? [keys.meta, randomToken()] : [keys.events, '']
  const ends = [Math.floor(nowMs / 3_600_000), monthEndMs(nowMs) / 1000] as const
  const counts = [ends[0], stored.hourAmount, ends[1], stored.monthAmount]
  const reply = await redis.evaluate(script, [key], [newEpoch, ...counts.map(String), stored.place ?? ''])
  const [, epoch] = reply as [string, string]
  return { kind: 'seeded', epoch, known: stored.epoch }
}

/** Reads all meters in one round trip. @throws RedisUnavailable */
export async function readMeters(
  redis: RedisConnection,
  script: RedisScript,
  tenantId: TenantId,
): Promise<UsageReading> {
  const { meta, side, events } = meterKeys(tenantId)
  const reply = await redis.evaluate(script, [meta, side, events], [])
  const [sec, epoch, recordBytes, locks, ofEvents] = reply as [number, string, number, RawPart, RawPart]
  return {
    tenantId,
    nowMs: sec * 1000,
    epoch: epoch === '' ? undefined : epoch,
    recordBytes,
    locks: toReading(locks),
    events: toReading(ofEvents),
  }
}

/** Returns 0 if no window contains the time. */
export function countAt(windows: readonly WindowCount[], nowMs: number): number {
  return windows.find(({ endMs }) => endMs > nowMs)?.count ?? 0
}

const minuteMs = 60_000

type RawPart = readonly (number | string)[]

function toReading(part: RawPart): MeterReading | undefined {
  if (part.length === 0) return undefined
  const numbers = part.join(' ').split(' ').map(Number)
  const at = (index: number) => numbers[index] ?? 0
  const hours = numbers.slice(8)
  return {
    minutes: [minuteOf(at(0), at(1)), minuteOf(at(4), at(5))],
    months: [monthOf(at(2), at(3)), monthOf(at(6), at(7))],
    hours: hours.flatMap((hour, nth) => (nth % 2 === 0 ? [{ hour, amount: hours[nth + 1] ?? 0 }] : [])),
  }
}

function minuteOf(minute: number, count: number): WindowCount {
  return { startMs: minute * minuteMs, endMs: (minute + 1) * minuteMs, count }
}

function monthOf(endSec: number, count: number): WindowCount {
  const endMs = endSec * 1000
  return { startMs: monthStartMs(endMs - 1), endMs, count }
}

export interface Failure<T> {
  readonly each: T
  readonly error: unknown
}

const parallelMax = 64
/** Time after which no further batch is started if an item has failed. Each batch could last until its timeout. */
const failingMsMax = 2_000

/**
 * Processes items in batches of at most 64. Continues after failures, unless the work takes over two seconds: then the remaining items are
 * skipped and returned as `left`.
 * @param work returns the failures; does not throw
 */
export async function inTurns<T>(
  all: readonly T[],
  clock: Clock,
  work: (some: readonly T[]) => Promise<readonly Failure<T>[]>,
): Promise<{ readonly failed: readonly Failure<T>[]; readonly left: readonly T[] }> {
  const endMs = clock.now() + failingMsMax
  const failed: Failure<T>[] = []
  for (let at = 0; at < all.length; at += parallelMax) {
    if (failed.length > 0 && clock.now() > endMs) return { failed, left: all.slice(at) }
    failed.push(...(await work(all.slice(at, at + parallelMax))))
  }
  return { failed, left: [] }
}

/** Runs the work concurrently. Never throws. */
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

/** Redis keys with the hash tag of the tenant's records: a string and a hash for locks and bytes, and a hash for events. */
export function meterKeys(tenantId: TenantId) {
  return { meta: `{${tenantId}}:meta`, side: `{${tenantId}}:side`, events: `{${tenantId}}:events` }
}

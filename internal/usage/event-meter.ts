import { monthEndMs, randomToken, setNewest, type TenantId } from '#internal/base/index.ts'
import { defineScript, type RedisScript } from '#internal/storage/index.ts'
import type { EffectiveLimits } from './limits.ts'
import {
  defineSeedScript,
  type Failure,
  inTurns,
  type MeterParts,
  meterKeys,
  seedMeter,
  settleEach,
} from './reading.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import countEvents from './scripts/count-events.lua' with { type: 'text' }
import eventsLua from './scripts/events.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }
import readEvents from './scripts/read-events.lua' with { type: 'text' }

/** Last counts that Redis returned for a tenant. Times are by this process' clock. */
interface Known {
  activeMs: number
  heardMs: number
  counts: EventCounts
}

/** Time without a reply after which Redis is regarded as unavailable. No event is refused then. */
const heardMsMax = 1_000
/** Age up to which a tenant's counts are not read again. */
const youngMs = 350
/** Time without an event after which a tenant's counts are no longer read. */
const activeMsMax = 60_000
/** Maximum number of calls to Redis for one tenant per `refresh`. Remaining events wait for the next `refresh`. */
const callsPerTurnMax = 10
/** Maximum number of tenants with remembered counts, and with uncounted events: as many as the directory can contain. */
const tenantsMax = 100_000
const unlimited: EventVerdict = { kind: 'free' }
const nothingHeard: EventCounts = { minute: 0, minuteCount: 0, monthEndSec: 0, monthCount: 0 }

/**
 * Counts events per tenant in Redis. Decides without a round trip, from the last counts of Redis plus the events that this process has
 * committed since. Uncounted events wait in memory and count towards the hour of their receipt.
 */
export class EventMeter {
  readonly #parts: MeterParts
  readonly #markUsed: (tenantId: TenantId) => void
  readonly #count: RedisScript
  readonly #read: RedisScript
  readonly #seed: RedisScript
  readonly #process = randomToken()
  readonly #known = new Map<TenantId, Known>()
  readonly #tallies = new Map<TenantId, EventTally>()
  #calls = 0
  #heardMs = Number.NEGATIVE_INFINITY
  /** Offset of Redis' clock from the local clock; positive if Redis' clock is ahead. */
  #offsetMs = 0
  #uncounted = 0

  /** @param markUsed called when events of a tenant were counted, so that the next flush writes the counts to Postgres */
  constructor(parts: MeterParts, markUsed: (tenantId: TenantId) => void) {
    this.#parts = parts
    this.#markUsed = markUsed
    const lua = [parts.clockSource ?? clockLua, meterLua, eventsLua]
    this.#count = defineScript('count-events', '', [...lua, countEvents])
    this.#read = defineScript('read-events', 'no-writes', [...lua, readEvents])
    this.#seed = defineSeedScript(parts.clockSource)
  }

  /** Events dropped since process start, because too many tenants had uncounted events. */
  get uncounted(): number {
    return this.#uncounted
  }

  /** Decides from counts in memory. Refuses no event while Redis is unavailable. */
  check(tenantId: TenantId, limits: EffectiveLimits): EventVerdict {
    if (limits.eventsPerMinute.hard === null && limits.eventsPerMonth.hard === null) return unlimited
    const nowMs = this.#parts.clock.now()
    return decideEvent(limits, {
      counts: this.#knownOf(tenantId, nowMs).counts,
      waiting: this.#tallies.get(tenantId)?.events ?? 0,
      nowMs: nowMs + this.#offsetMs,
      isRedisThere: nowMs - this.#heardMs <= heardMsMax,
    })
  }

  /** Adds committed events, without duplicates, for the next `refresh`. Limits here count them immediately. Never throws. */
  countStored(
    events: readonly {
      readonly tenantId: TenantId
      readonly receivedAtMs: number
    }[],
  ): void {
    const nowMs = this.#parts.clock.now()
    for (const { tenantId, receivedAtMs } of events) {
      const tally = this.#tallyOf(tenantId)
      if (tally) tally.add(receivedAtMs, nowMs)
      else this.#uncounted += 1
    }
  }

  /**
   * Counts the added events in Redis, one call per tenant, and reads the counts of other active tenants with limits. Call it several times
   * per second, without overlap; a call per batch of events would slow intake. A tenant that fails does not delay others, and the next call
   * processes it last.
   * @throws the first failure: Redis does not reply, or Postgres fails while meters are seeded
   */
  async refresh(): Promise<void> {
    const sending = await this.#inTurns(this.#tallies, (tenantId) => this.#send(tenantId))
    const reading = await this.#inTurns(this.#known, (tenantId) => this.#readCounts(tenantId), this.#toRead())
    const [first] = [...sending, ...reading]
    if (first) throw first.error
  }

  #toRead(): TenantId[] {
    const nowMs = this.#parts.clock.now()
    const [first] = this.#known.keys()
    const wanted = [...this.#known].flatMap(([tenantId, { activeMs, heardMs }]) =>
      nowMs - activeMs < activeMsMax && nowMs - heardMs > youngMs ? [tenantId] : [],
    )
    // Without a recent reply, the first tenant's counts are also read, to find out whether Redis replies.
    const isStale = nowMs - this.#heardMs > youngMs
    return first !== undefined && isStale && !wanted.includes(first) ? [...wanted, first] : wanted
  }

  /** Moves failed tenants to the end, so that they do not starve others when the time limit is reached. */
  async #inTurns<V>(
    map: Map<TenantId, V>,
    work: (tenantId: TenantId) => Promise<void>,
    tenants: readonly TenantId[] = [...map.keys()],
  ): Promise<readonly Failure<TenantId>[]> {
    const failuresOf = async (some: readonly TenantId[]) => (await settleEach(some, work)).failed
    const { failed } = await inTurns(tenants, this.#parts.clock, failuresOf)
    for (const { each } of failed) {
      const value = map.get(each)
      if (value !== undefined && map.delete(each)) map.set(each, value)
    }
    return failed
  }

  #knownOf(tenantId: TenantId, nowMs: number): Known {
    const known = this.#known.get(tenantId)
    if (known) {
      known.activeMs = nowMs
      return known
    }
    const made: Known = { activeMs: nowMs, heardMs: Number.NEGATIVE_INFINITY, counts: nothingHeard }
    setNewest(this.#known, tenantId, made, tenantsMax)
    return made
  }

  #tallyOf(tenantId: TenantId): EventTally | undefined {
    let tally = this.#tallies.get(tenantId)
    if (tally || this.#tallies.size >= tenantsMax) return tally
    this.#tallies.set(tenantId, (tally = new EventTally()))
    return tally
  }

  async #send(tenantId: TenantId): Promise<void> {
    const tally = this.#tallies.get(tenantId)
    for (let calls = 0; calls < callsPerTurnMax; calls += 1) {
      const call = tally?.next(this.#parts.clock.now(), () => (this.#calls += 1))
      const reply = call && (await this.#countCall(tenantId, call))
      if (!reply) {
        this.#tallies.delete(tenantId)
        return
      }
      tally?.confirm()
      this.#hear(this.#known.get(tenantId), reply)
      this.#markUsed(tenantId)
    }
  }

  /** Returns undefined for a deleted tenant, which gets no meters and whose events are dropped. */
  async #countCall(
    tenantId: TenantId,
    { call, fresh, late }: NonNullable<ReturnType<EventTally['next']>>,
  ): Promise<Counts | undefined> {
    const args = [this.#process, String(call), String(fresh), ...[...late].flat().map(String)]
    const evaluate = async () =>
      (await this.#parts.redis.evaluate(this.#count, [meterKeys(tenantId).events], args)) as Reply
    let reply = await evaluate()
    if (reply[0] === 'seed') {
      if (!(await this.#seedOnce(tenantId))) return undefined
      reply = await evaluate()
    }
    if (reply[0] === 'seed') throw new Error('event meters were lost during counting')
    return reply
  }

  /** Returns false for a deleted tenant. If several processes seed the meter concurrently, one wins. */
  async #seedOnce(tenantId: TenantId): Promise<boolean> {
    const { kind } = await seedMeter(this.#parts, this.#seed, tenantId, 'events')
    if (kind === 'deleted') this.#known.delete(tenantId)
    return kind === 'seeded'
  }

  async #readCounts(tenantId: TenantId): Promise<void> {
    const reply = (await this.#parts.redis.evaluate(this.#read, [meterKeys(tenantId).events], [])) as Reply
    if (reply[0] === 'known') return this.#hear(this.#known.get(tenantId), reply)
    // Notes the reply of Redis before seeding, which fails while Postgres is unavailable.
    this.#heardAt(reply[1])
    await this.#seedOnce(tenantId)
  }

  #hear(known: Known | undefined, [, sec, minute, minuteCount, monthEndSec, monthCount]: Counts): void {
    const heardMs = this.#heardAt(sec)
    if (known) Object.assign(known, { heardMs, counts: { minute, minuteCount, monthEndSec, monthCount } })
  }

  #heardAt(sec: number): number {
    const nowMs = this.#parts.clock.now()
    this.#heardMs = nowMs
    // Redis replies in whole seconds, so clocks that differ by less than a second are regarded as equal.
    const aheadMs = sec * 1000 - nowMs
    this.#offsetMs = aheadMs > 0 || aheadMs < -1_000 ? aheadMs : 0
    return nowMs
  }
}

type Counts = readonly [
  kind: 'known',
  sec: number,
  minute: number,
  minuteCount: number,
  monthEndSec: number,
  monthCount: number,
]
type Reply = Counts | readonly ['seed', number]

/** Age up to which an event counts towards the current minute. */
const freshMsMax = 5_000
/** Hours kept separately per tenant. Older events count towards the oldest kept hour. */
const hoursMax = 48
const hourMs = 3_600_000

/**
 * Tallies a tenant's committed events by hour until Redis has counted them. An unconfirmed call is repeated with the same number, so that
 * Redis does not count it twice; later events wait for the next call.
 */
export class EventTally {
  #open = new Batch()
  #sent: { readonly call: number; readonly batch: Batch } | undefined

  add(receivedAtMs: number, nowMs: number): void {
    this.#open.add(receivedAtMs, nowMs)
  }

  /** Events that Redis has not confirmed as counted. */
  get events(): number {
    return this.#open.events + (this.#sent?.batch.events ?? 0)
  }

  /**
   * Returns the unconfirmed call, or a new call with all waiting events; undefined without events. Redis counts each number `call` once.
   * `fresh` events count towards the current minute; `late` ones by hour of receipt, in hours since the Unix epoch.
   */
  next(nowMs: number, nextCall: () => number) {
    if (this.events === 0) return undefined
    if (!this.#sent) {
      this.#sent = { call: nextCall(), batch: this.#open }
      this.#open = new Batch()
    }
    const { call, batch } = this.#sent
    batch.age(nowMs)
    return { call, fresh: batch.fresh, late: batch.late }
  }

  confirm(): void {
    this.#sent = undefined
  }
}

class Batch {
  fresh = 0
  #freshSinceMs = 0
  readonly late = new Map<number, number>()
  events = 0

  add(receivedAtMs: number, nowMs: number): void {
    this.events += 1
    if (nowMs - receivedAtMs > freshMsMax) return this.#addLate(receivedAtMs, 1)
    this.age(nowMs)
    if (this.fresh === 0) this.#freshSinceMs = receivedAtMs
    this.fresh += 1
  }

  /** Makes waiting events that are too old for the current minute count only towards the hour of their receipt. */
  age(nowMs: number): void {
    if (this.fresh === 0 || nowMs - this.#freshSinceMs <= freshMsMax) return
    this.#addLate(this.#freshSinceMs, this.fresh)
    this.fresh = 0
  }

  #addLate(receivedAtMs: number, count: number): void {
    let hour = Math.floor(receivedAtMs / hourMs)
    if (this.late.size >= hoursMax && !this.late.has(hour)) hour = Math.min(...this.late.keys())
    this.late.set(hour, (this.late.get(hour) ?? 0) + count)
  }
}

/** Verdict on an event. `over`: accepted and marked, because the month's hard limit is reached. `limited`: refused. */
export type EventVerdict =
  | { readonly kind: 'free' }
  | { readonly kind: 'over' }
  | {
      readonly kind: 'limited'
      readonly limit: 'eventsPerMinute' | 'eventsPerMonth'
      readonly quota: number
      readonly retryAfterMs: number
    }

/** Minute and month are by the clock of Redis. */
export interface EventCounts {
  /** Minutes since the Unix epoch. */
  readonly minute: number
  readonly minuteCount: number
  readonly monthEndSec: number
  readonly monthCount: number
}

const minuteMs = 60_000
const free: EventVerdict = { kind: 'free' }
const over: EventVerdict = { kind: 'over' }

/** Decides whether to accept an event. The counts never exceed the real usage, so a refused event is certainly over its limit. */
export function decideEvent(
  { eventsPerMinute, eventsPerMonth }: EffectiveLimits,
  {
    counts,
    waiting,
    nowMs,
    isRedisThere,
  }: {
    readonly counts: EventCounts
    /** Events committed by this process that `counts` does not include yet. */
    readonly waiting: number
    /** Time by Redis' clock. */
    readonly nowMs: number
    /** Whether Redis replied within the last second. Otherwise no event is refused. */
    readonly isRedisThere: boolean
  },
): EventVerdict {
  const isMinute = (counts.minute + 1) * minuteMs > nowMs
  const inMinute = (isMinute ? counts.minuteCount : 0) + waiting
  if (eventsPerMinute.hard !== null && inMinute >= eventsPerMinute.hard && isRedisThere) {
    const retryAfterMs = minuteMs - (nowMs % minuteMs)
    return { kind: 'limited', limit: 'eventsPerMinute', quota: eventsPerMinute.hard, retryAfterMs }
  }
  const inMonth = (counts.monthEndSec * 1000 > nowMs ? counts.monthCount : 0) + waiting
  if (eventsPerMonth.hard === null || inMonth < eventsPerMonth.hard) return free
  if (eventsPerMonth.over === 'accept' || !isRedisThere) return over
  const retryAfterMs = monthEndMs(nowMs) - nowMs
  return { kind: 'limited', limit: 'eventsPerMonth', quota: eventsPerMonth.hard, retryAfterMs }
}

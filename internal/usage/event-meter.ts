import { type Clock, randomToken, type TenantId } from '#internal/base/index.ts'
import { defineScript, type Pool, type RedisConnection, type RedisScript } from '#internal/storage/index.ts'
import type { EffectiveLimits, EventLimitName } from './limits.ts'
import { type Failure, inTurns, settleEach } from './meter.ts'
import { defineSeedScript, meterKeys, monthEndMs, seedMeter } from './reading.ts'
import clockLua from './scripts/clock.lua' with { type: 'text' }
import countEvents from './scripts/count-events.lua' with { type: 'text' }
import eventsLua from './scripts/events.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }
import readEvents from './scripts/read-events.lua' with { type: 'text' }

/** Options of `EventMeter`. The caller closes its connections. */
export interface EventMeterOptions {
  readonly redis: RedisConnection
  readonly pool: Pool
  readonly clock: Clock
  /** Called when events of a tenant were counted, so that its hours are rolled up. */
  markUsed(tenantId: TenantId): void
  /** Lua that defines `clock()`, for tests that move it. */
  readonly clockSource?: string
}

/** An event that was committed. */
export interface CountedEvent {
  readonly tenantId: TenantId
  /** Milliseconds since the epoch. */
  readonly receivedAtMs: number
}

/** State of a tenant with limits; times by this process' clock. */
interface Known {
  activeMs: number
  heardMs: number
  counts: EventCounts
}

/** After so long without an answer Redis counts as away, and then no event is refused. */
const heardMsMax = 1_000
/** Counts younger than this are not asked for again. */
const youngMs = 350
/** A tenant with limits is asked for until it has had no event for so long. */
const activeMsMax = 60_000
/** Tenants whose counts are remembered, and tenants whose events wait to be counted: as many as a directory holds. */
const tenantsMax = 100_000
const unlimited: EventVerdict = { kind: 'free' }
const nothingHeard: EventCounts = { minute: 0, minuteCount: 0, monthEndSec: 0, monthCount: 0 }

/**
 * A tenant's counts of events. They live in Redis; what this process last heard of them, and what it has committed since, decides
 * about the next event without a round trip. What could not be counted waits in memory and is counted later, in the hour it came in.
 */
export class EventMeter {
  readonly #options: EventMeterOptions
  readonly #count: RedisScript
  readonly #read: RedisScript
  readonly #seed: RedisScript
  readonly #process = randomToken()
  readonly #known = new Map<TenantId, Known>()
  readonly #tallies = new Map<TenantId, EventTally>()
  readonly #sending = new Map<TenantId, Promise<void>>()
  #calls = 0
  #heardMs = Number.NEGATIVE_INFINITY
  /** Lead of Redis' clock over ours, ms. */
  #offsetMs = 0
  #uncounted = 0

  constructor(options: EventMeterOptions) {
    this.#options = options
    const parts = [options.clockSource ?? clockLua, meterLua, eventsLua]
    this.#count = defineScript('count-events', '', [...parts, countEvents])
    this.#read = defineScript('read-events', 'no-writes', [...parts, readEvents])
    this.#seed = defineSeedScript(options.clockSource)
  }

  /** Events that were given up uncounted since the process began: more tenants' waited than there is room for. */
  get uncounted(): number {
    return this.#uncounted
  }

  /** Decides about a tenant's next event, from memory. While Redis is away it refuses none. */
  check(tenantId: TenantId, limits: EffectiveLimits): EventVerdict {
    if (limits.eventsPerMinute.hard === null && limits.eventsPerMonth.hard === null) return unlimited
    const nowMs = this.#options.clock.now()
    return decideEvent(limits, {
      counts: this.#knownOf(tenantId, nowMs).counts,
      waiting: this.#tallies.get(tenantId)?.events ?? 0,
      nowMs: nowMs + this.#offsetMs,
      isRedisThere: nowMs - this.#heardMs <= heardMsMax,
    })
  }

  /**
   * Notes events that were committed, for the next turn of `refresh`; they count against the limits here at once. Never throws. Not
   * for duplicates.
   */
  countStored(events: readonly CountedEvent[]): void {
    const nowMs = this.#options.clock.now()
    for (const { tenantId, receivedAtMs } of events) {
      const tally = this.#tallyOf(tenantId)
      if (tally) tally.add(receivedAtMs, nowMs)
      else this.#uncounted += 1
    }
  }

  /**
   * Counts what was noted, one call for each tenant, and asks for the counts of other tenants with limits that had calls of late.
   * To be called several times a second: a call for each batch of events is felt by intake. Tenants for whom it fails keep no other
   * from theirs, and come last in the next turn, which makes up for it.
   * @throws the first failure: Redis does not answer, or Postgres where Redis has lost its counts
   */
  async refresh(): Promise<void> {
    const sending = await this.#inTurns([...this.#tallies.keys()], (tenantId) => this.#send(tenantId))
    for (const { each } of sending) moveToEnd(this.#tallies, each)
    const ask = async (tenants: readonly TenantId[]) => {
      const failed = await this.#inTurns(tenants, (tenantId) => this.#readCounts(tenantId))
      for (const { each } of failed) moveToEnd(this.#known, each)
      return failed
    }
    const reading = await ask(this.#tenantsToAsk())
    // Whether Redis is there has to be known also for those that nothing was asked about.
    const [any] = this.#known.keys()
    const isOld = this.#options.clock.now() - this.#heardMs > youngMs
    if (any !== undefined && isOld) reading.push(...(await ask([any])))
    const [first] = [...sending, ...reading]
    if (first) throw first.error
  }

  #tenantsToAsk(): TenantId[] {
    const nowMs = this.#options.clock.now()
    const asked: TenantId[] = []
    for (const [tenantId, { activeMs, heardMs }] of this.#known) {
      if (nowMs - activeMs < activeMsMax && nowMs - heardMs > youngMs) asked.push(tenantId)
    }
    return asked
  }

  async #inTurns(
    tenants: readonly TenantId[],
    work: (tenantId: TenantId) => Promise<void>,
  ): Promise<Failure<TenantId>[]> {
    const failuresOf = async (some: readonly TenantId[]) => (await settleEach(some, work)).failed
    return [...(await inTurns(tenants, this.#options.clock, failuresOf)).failed]
  }

  #knownOf(tenantId: TenantId, nowMs: number): Known {
    const known = this.#known.get(tenantId)
    if (known) {
      known.activeMs = nowMs
      return known
    }
    if (this.#known.size >= tenantsMax) {
      const [oldest] = this.#known.keys()
      if (oldest !== undefined) this.#known.delete(oldest)
    }
    const made: Known = { activeMs: nowMs, heardMs: Number.NEGATIVE_INFINITY, counts: nothingHeard }
    this.#known.set(tenantId, made)
    return made
  }

  #tallyOf(tenantId: TenantId): EventTally | undefined {
    let tally = this.#tallies.get(tenantId)
    if (tally || this.#tallies.size >= tenantsMax) return tally
    this.#tallies.set(tenantId, (tally = new EventTally()))
    return tally
  }

  /** One call at a time for each tenant, until nothing of it waits. */
  #send(tenantId: TenantId): Promise<void> {
    const running = this.#sending.get(tenantId)
    const tally = this.#tallies.get(tenantId)
    if (running || !tally) return running ?? Promise.resolve()
    const sending = this.#sendAll(tenantId, tally)
    this.#sending.set(tenantId, sending)
    return sending
  }

  async #sendAll(tenantId: TenantId, tally: EventTally): Promise<void> {
    try {
      for (;;) {
        const call = tally.next(this.#options.clock.now(), () => (this.#calls += 1))
        const reply = call && (await this.#countCall(tenantId, call))
        if (!reply) break
        tally.confirm()
        this.#hear(this.#known.get(tenantId), reply)
        this.#options.markUsed(tenantId)
      }
      this.#tallies.delete(tenantId)
    } finally {
      this.#sending.delete(tenantId)
    }
  }

  /** Undefined for a deleted tenant: it gets no meters, and what it had is counted for nobody. */
  async #countCall(tenantId: TenantId, { call, fresh, late }: TallyCall): Promise<Counts | undefined> {
    const args = [this.#process, String(call), String(fresh), ...[...late].flat().map(String)]
    const evaluate = async () =>
      (await this.#options.redis.evaluate(this.#count, [meterKeys(tenantId).events], args)) as Reply
    let reply = await evaluate()
    if (reply[0] === 'seed') {
      if (!(await this.#seedOnce(tenantId))) return undefined
      reply = await evaluate()
    }
    if (reply[0] === 'seed') throw new Error('meters of events were lost while they were counted')
    return reply
  }

  /** Gives a tenant its meters of events; false for a deleted one. Of several processes that try one wins. */
  async #seedOnce(tenantId: TenantId): Promise<boolean> {
    const { kind } = await seedMeter(this.#options, this.#seed, tenantId, 'events')
    if (kind === 'deleted') this.#known.delete(tenantId)
    return kind === 'seeded'
  }

  async #readCounts(tenantId: TenantId): Promise<void> {
    const reply = (await this.#options.redis.evaluate(this.#read, [meterKeys(tenantId).events], [])) as Reply
    if (reply[0] === 'known') return this.#hear(this.#known.get(tenantId), reply)
    // Redis is there also where the tenant is not, or Postgres is away.
    this.#heardAt(reply[1])
    await this.#seedOnce(tenantId)
  }

  #hear(known: Known | undefined, [, sec, minute, minuteCount, monthEndSec, monthCount]: Counts): void {
    const heardMs = this.#heardAt(sec)
    if (known) Object.assign(known, { heardMs, counts: { minute, minuteCount, monthEndSec, monthCount } })
  }

  #heardAt(sec: number): number {
    const nowMs = this.#options.clock.now()
    this.#heardMs = nowMs
    // Redis tells whole seconds: less than one apart the clocks agree.
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

/** Moves a failed tenant to the end, so that it does not starve the others when time is up. */
function moveToEnd<V>(map: Map<TenantId, V>, tenantId: TenantId): void {
  const value = map.get(tenantId)
  if (value === undefined) return
  map.delete(tenantId)
  map.set(tenantId, value)
}

/** One call's worth of events. */
export interface TallyCall {
  /** Its number in this process: the same again is not counted again. */
  readonly call: number
  /** Events of just now. */
  readonly fresh: number
  /** Hours since the Unix epoch, and the events that came in then and were not counted in time. */
  readonly late: ReadonlyMap<number, number>
}

/** An event counts in the running minute only so long after it came in. */
const freshMsMax = 5_000
/** Hours kept apart for one tenant; what is older shares the oldest one kept. */
const hoursMax = 48
const hourMs = 3_600_000

/**
 * A tenant's committed events on their way to the meter. What was sent and not confirmed is kept apart under its call's number, since
 * it may have been counted; what comes meanwhile waits for the next call. Bounded: counts by hour, no event.
 */
export class EventTally {
  #open = new Batch()
  #sent: { readonly call: number; readonly batch: Batch } | undefined

  /** Adds an event that came in at `receivedAtMs`. */
  add(receivedAtMs: number, nowMs: number): void {
    this.#open.add(receivedAtMs, nowMs)
  }

  /** Events that no call has confirmed yet. */
  get events(): number {
    return this.#open.events + (this.#sent?.batch.events ?? 0)
  }

  /** Returns the next call: the unconfirmed one, or all that waits; undefined when nothing waits. */
  next(nowMs: number, nextCall: () => number): TallyCall | undefined {
    if (this.events === 0) return undefined
    if (!this.#sent) {
      this.#sent = { call: nextCall(), batch: this.#open }
      this.#open = new Batch()
    }
    const { call, batch } = this.#sent
    batch.age(nowMs)
    return { call, fresh: batch.fresh, late: batch.late }
  }

  /** The call that `next` gave was counted. */
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

  /** Moves fresh events that waited too long to their hour. */
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

/**
 * Verdict on an event. `free`: accepted. `over`: accepted and marked, because the month's hard limit is reached. `limited`: refused.
 */
export type EventVerdict =
  | { readonly kind: 'free' }
  | { readonly kind: 'over' }
  | {
      readonly kind: 'limited'
      readonly limit: EventLimitName
      readonly quota: number
      readonly retryAfterMs: number
    }

/** The last counts heard of, by windows of Redis' clock. */
export interface EventCounts {
  /** Minutes since the Unix epoch. */
  readonly minute: number
  readonly minuteCount: number
  readonly monthEndSec: number
  readonly monthCount: number
}

/** Facts that decide about an event. */
export interface EventFacts {
  readonly counts: EventCounts
  /** Events committed here that are not in the counts yet. */
  readonly waiting: number
  /** Redis' clock, ms. */
  readonly nowMs: number
  /** Redis answered within the last second; without it no event is refused. */
  readonly isRedisThere: boolean
}

const minuteMs = 60_000
const free: EventVerdict = { kind: 'free' }
const over: EventVerdict = { kind: 'over' }

/** Decides about one event. Counts are what is surely used, so what is refused is over its limit. Pure. */
export function decideEvent(
  { eventsPerMinute, eventsPerMonth }: EffectiveLimits,
  { counts, waiting, nowMs, isRedisThere }: EventFacts,
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

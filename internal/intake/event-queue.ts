import type { Acceptance, BatchOutcome, OnSettled, ReceivedEvent } from '#internal/events/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import { StoreBreaker } from './store-breaker.ts'
import { takeBatch } from './take-batch.ts'

/** What a queue works with. */
export interface EventQueueOptions {
  /**
   * Stores a batch of events sorted by dedupe key, no key twice; may tell an event's fate before the others' are known. Never
   * throws.
   */
  storeBatch(events: readonly ReceivedEvent[], onSettled: OnSettled): Promise<BatchOutcome>
  /** Puts an event where it survives until Postgres is back. Never throws. */
  spool(event: ReceivedEvent): Promise<'queued' | 'unavailable'>
  /** How long an event waits for Postgres before it is spooled, ms; default 2 000. */
  readonly patienceMs?: number
  /** Interval of an open circuit breaker's probes of Postgres, ms; default 1 000. After an error the first one comes after 100 ms. */
  readonly probeEveryMs?: number
  /** Waits between probes. Default: real time. */
  readonly sleep?: Sleep
  /** Called once per change of the circuit breaker. Must not throw. */
  onBreaker?(isOpen: boolean): void
  /** How long after the start of a batch the next one may wait for more rows, ms; default 5 to 25. */
  readonly gatherMs?: readonly [least: number, most: number]
  /** Batches under way at a time; default 2: one commits while the next one is gathered and sent. */
  readonly batchesMax?: number
}

const defaultBatchesMax = 2
/** A second batch begins only with this many rows, so that few callers share one commit instead of taking turns in two. */
const secondBatchRows = 32
/**
 * A batch of fewer rows waits until this long after the start of the one before, or twice as long as that took where Postgres is
 * busy, so that under load they share a statement's own cost, which is that of dozens of rows. At rest an event goes at once.
 */
const defaultGatherMs = [5, 25] as const
const gatherShare = 2
const defaultPatienceMs = 2_000
const defaultProbeEveryMs = 1_000

interface Waiting {
  readonly event: ReceivedEvent
  readonly sinceMs: number
  isSettled: boolean
  readonly settled: Promise<Acceptance>
  settle(acceptance: Acceptance): void
}

/**
 * Brings events that arrive together into one commit. An event's promise settles when its fate is known; one with the key of an
 * event that waits or is under way shares that one's fate. Bounded by its callers: each waits with its body's room taken.
 *
 * The first batch that fails or is late opens a circuit breaker: from then on events are spooled without asking Postgres, until a
 * probe succeeds in time. A probe stores one of the events that were spooled, so that it finds whatever a real batch would find: a
 * lock, a full disk, a server that only reads. Drain and probe may both store it: the second one meets its own key. One such event is
 * held in memory while the breaker is open.
 */
export class EventQueue {
  readonly #options: EventQueueOptions
  readonly #byKey = new Map<string, Waiting>()
  #waiting: Waiting[] = []
  readonly #batchesMax: number
  #batches = 0
  /** Of these, those whose time is up and whose statements still run. */
  #late = 0
  #startedAtMs = Number.NEGATIVE_INFINITY
  #gatherMs = 0
  #gathering: ReturnType<typeof setTimeout> | undefined
  readonly #breaker: StoreBreaker
  #probed: ReceivedEvent | undefined

  constructor(options: EventQueueOptions) {
    this.#options = options
    this.#batchesMax = options.batchesMax ?? defaultBatchesMax
    this.#breaker = new StoreBreaker({
      probe: () => this.#probe(),
      probeEveryMs: options.probeEveryMs ?? defaultProbeEveryMs,
      now: () => performance.now(),
      sleep: options.sleep ?? sleep,
      onChanged: (isOpen) => {
        if (!isOpen) this.#probed = undefined
        options.onBreaker?.(isOpen)
      },
    })
  }

  /** Events whose fate is open, for metrics and for draining. */
  get size(): number {
    return this.#byKey.size
  }

  /** Whether the circuit breaker is open: events are spooled without asking Postgres. */
  get isBreakerOpen(): boolean {
    return this.#breaker.isOpen
  }

  /** Ends the probes of Postgres. */
  close(): void {
    this.#breaker.stop()
  }

  /** Stores an event, or spools it when Postgres does not answer in time. Never rejects. */
  accept(event: ReceivedEvent): Promise<Acceptance> {
    const original = this.#byKey.get(event.dedupeKey)
    if (original) return original.settled.then((fate) => (fate === 'stored' ? 'duplicate' : fate))
    const { promise, resolve } = Promise.withResolvers<Acceptance>()
    const sinceMs = performance.now()
    const waiting: Waiting = { event, sinceMs, isSettled: false, settled: promise, settle: resolve }
    this.#byKey.set(event.dedupeKey, waiting)
    if (this.#breaker.isOpen) {
      // The latest, so that one event that Postgres cannot store in time does not keep the breaker open.
      this.#probed = event
      void this.#spool(waiting)
      return promise
    }
    this.#waiting.push(waiting)
    this.#startNext()
    return promise
  }

  #startNext(): void {
    if (this.#batches === this.#batchesMax || this.#waiting.length === 0) return
    if (this.#waiting.length >= secondBatchRows) return this.#startBatch()
    // One that is late says nothing of the next one.
    if (this.#batches > this.#late) return
    const waitMs = this.#startedAtMs + this.#gatherMs - performance.now()
    if (waitMs <= 0) return this.#startBatch()
    this.#gathering ??= setTimeout(() => {
      this.#gathering = undefined
      this.#startNext()
    }, waitMs)
  }

  #startBatch(): void {
    this.#batches += 1
    this.#startedAtMs = performance.now()
    const batch = takeBatch(this.#waiting)
    void this.#runBatch(batch.sort((a, b) => (a.event.dedupeKey < b.event.dedupeKey ? -1 : 1)))
  }

  /** A batch's place is free once its statement has ended, also where nobody waits for it any more. */
  async #runBatch(batch: readonly Waiting[]): Promise<void> {
    const startedAtMs = performance.now()
    const storing = this.#store(batch)
    const outcome = await this.#inTime(batch, storing)
    if (outcome === 'late') {
      this.#conclude(batch, 'late')
      this.#late += 1
      // What it stores after all meets its own keys when the spool is drained.
      await storing
      this.#late -= 1
    } else this.#conclude(batch, outcome)
    const [leastMs, mostMs] = this.#options.gatherMs ?? defaultGatherMs
    const tookMs = performance.now() - startedAtMs
    this.#gatherMs = Math.min(mostMs, Math.max(leastMs, gatherShare * tookMs))
    this.#batches -= 1
    this.#startNext()
  }

  #store(batch: readonly Waiting[]): Promise<BatchOutcome> {
    const byId = new Map(batch.map((waiting) => [waiting.event.id, waiting]))
    return this.#options.storeBatch(
      batch.map(({ event }) => event),
      (event, acceptance) => {
        const waiting = byId.get(event.id)
        if (waiting) this.#settle(waiting, acceptance)
      },
    )
  }

  async #inTime(batch: readonly Waiting[], storing: Promise<BatchOutcome>): Promise<BatchOutcome | 'late'> {
    const { patienceMs = defaultPatienceMs } = this.#options
    const oldestMs = batch.reduce(
      (oldest, { sinceMs }) => Math.min(oldest, sinceMs),
      Number.POSITIVE_INFINITY,
    )
    let timer: ReturnType<typeof setTimeout> | undefined
    const impatience = new Promise<'late'>((resolve) => {
      timer = setTimeout(resolve, oldestMs + patienceMs - performance.now(), 'late')
    })
    const outcome = await Promise.race([storing, impatience])
    clearTimeout(timer)
    return outcome
  }

  #conclude(batch: readonly Waiting[], outcome: BatchOutcome | 'late'): void {
    if (outcome !== 'late' && outcome.kind === 'settled') {
      batch.forEach((waiting, index) => {
        const acceptance = outcome.acceptances[index] ?? 'unavailable'
        if (acceptance === 'unavailable') void this.#spool(waiting)
        else this.#settle(waiting, acceptance)
      })
      return
    }
    this.#probed ??= smallestOf(batch)
    this.#breaker.open(outcome === 'late' ? 'late' : 'error')
    // Those behind would only wait for the same: their callers have little time.
    const left = this.#waiting
    this.#waiting = []
    for (const waiting of [...batch, ...left]) void this.#spool(waiting)
  }

  /** Stores one event that is in the spool already. Takes a batch's place, so that it waits while late statements have them all. */
  async #probe(): Promise<boolean> {
    if (this.#probed === undefined || this.#batches === this.#batchesMax) return false
    // A new delivery cycle is for the call that was answered from Postgres, as it is not for what the drain stores.
    const { retriesOnRedelivery: _retries, ...event } = this.#probed
    const startedAtMs = performance.now()
    this.#batches += 1
    const outcome = await this.#options.storeBatch([event], () => undefined)
    this.#batches -= 1
    const isInTime = performance.now() - startedAtMs <= (this.#options.patienceMs ?? defaultPatienceMs)
    return isInTime && outcome.kind === 'settled' && outcome.acceptances[0] !== 'unavailable'
  }

  async #spool(waiting: Waiting): Promise<void> {
    if (waiting.isSettled) return
    this.#settle(waiting, await this.#options.spool(waiting.event))
  }

  /** The first fate counts. */
  #settle(waiting: Waiting, acceptance: Acceptance): void {
    if (waiting.isSettled) return
    waiting.isSettled = true
    this.#byKey.delete(waiting.event.dedupeKey)
    waiting.settle(acceptance)
  }
}

function smallestOf(batch: readonly Waiting[]): ReceivedEvent | undefined {
  const events = batch.map(({ event }) => event)
  return events.toSorted((a, b) => a.payloadBytes - b.payloadBytes)[0]
}

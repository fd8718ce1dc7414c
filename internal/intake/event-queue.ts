import { within } from '#internal/base/index.ts'
import type { Acceptance, BatchOutcome, OnCompleted, ReceivedEvent } from '#internal/events/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import { BatchWriter } from '#internal/storage/index.ts'

/** Accepts events for storage. */
export interface Accepting {
  /** Stores an event, or spools it if Postgres does not answer in time. Never rejects. */
  accept(event: ReceivedEvent): Promise<Acceptance>
}

/** Dependencies and bounds of an event queue. */
export interface EventQueueOptions {
  /** Stores events sorted by dedupe key, no key twice; may report single results early. Never rejects. */
  storeBatch(events: readonly ReceivedEvent[], onCompleted: OnCompleted): Promise<BatchOutcome>
  /** Keeps an event until Postgres is back. Never rejects. */
  spool(event: ReceivedEvent): Promise<'queued' | 'unavailable'>
  /** Time that an event waits for Postgres before it is spooled, ms; default 2 000. */
  readonly patienceMs?: number
  /** Interval of probes while the circuit breaker is open, ms; default 1 000. */
  readonly probeEveryMs?: number
  /** Waits between probes. Default: real time. */
  readonly sleep?: Sleep
  /** Called once per change of the circuit breaker. Must not throw. */
  onBreaker?(isOpen: boolean): void
  /** Bounds of the time from one batch to the next while few events wait, ms; default 5 and 25. */
  readonly gatherMs?: readonly [least: number, most: number]
  /** Batches in flight; default 2: one commits while the next is gathered and sent. */
  readonly batchesMax?: number
}

/** Bounds of one statement, for storing and for spooling. */
export const eventBatch = {
  itemsMax: 500,
  bytesMax: 4 * 1024 * 1024,
  bytesOf: ({ event }: { readonly event: ReceivedEvent }): number =>
    event.payloadBytes + event.headers.length,
}
/** Events at which a second batch starts beside the first: few callers share a commit instead of alternating between two. */
const parallelItems = 32
/**
 * Gathering makes events share the fixed cost of a statement, which equals that of dozens of rows: twice the duration of the last
 * batch, within these bounds. At rest an event is sent at once.
 */
const defaultGatherMs = [5, 25] as const
const gatherShare = 2
const defaultPatienceMs = 2_000
const defaultProbeEveryMs = 1_000
/** Delay of the first probe after an error, ms. Most errors are one dropped connection, and the pool's next one works. */
const firstProbeAfterErrorMs = 100

interface Waiting {
  readonly event: ReceivedEvent
  readonly sinceMs: number
  isCompleted: boolean
  readonly completed: Promise<Acceptance>
  resolve(acceptance: Acceptance): void
}

/**
 * Writes events that arrive together in one commit. An event with the dedupe key of one in the queue shares its result. The queue
 * is bounded by its callers, who wait with their body's memory charged.
 *
 * Circuit breaker: the first batch that fails or is late opens it. While it is open, events are spooled without asking Postgres; a
 * probe each second stores one spooled event for real, so that it meets locks, full disks and read-only servers, and the first
 * that succeeds in time closes the breaker. Storing an event twice (probe and drain) is harmless: the second meets its own key.
 */
export class EventQueue implements Accepting {
  readonly #options: EventQueueOptions
  readonly #patienceMs: number
  readonly #writer: BatchWriter<Waiting>
  readonly #byKey = new Map<string, Waiting>()
  /** Aborted to end the probes; undefined while the circuit breaker is closed. */
  #breaker: AbortController | undefined
  /** The spooled event that the next probe stores. */
  #probed: ReceivedEvent | undefined

  constructor(options: EventQueueOptions) {
    this.#options = options
    this.#patienceMs = options.patienceMs ?? defaultPatienceMs
    const [leastMs, mostMs] = options.gatherMs ?? defaultGatherMs
    this.#writer = new BatchWriter<Waiting>({
      ...eventBatch,
      batchesMax: options.batchesMax ?? 2,
      parallelItems,
      gather: { leastMs, mostMs, share: gatherShare },
      write: (batch, markLate) => this.#write(batch, markLate),
    })
  }

  /** Events without a result yet. */
  get size(): number {
    return this.#byKey.size
  }

  get isBreakerOpen(): boolean {
    return this.#breaker !== undefined
  }

  /** Ends the probes for good. Idempotent. */
  close(): void {
    this.#breaker?.abort()
  }

  accept(event: ReceivedEvent): Promise<Acceptance> {
    const original = this.#byKey.get(event.dedupeKey)
    if (original) return original.completed.then((fate) => (fate === 'stored' ? 'duplicate' : fate))
    const { promise, resolve } = Promise.withResolvers<Acceptance>()
    const waiting: Waiting = {
      ...{ event, sinceMs: performance.now(), isCompleted: false, completed: promise, resolve },
    }
    this.#byKey.set(event.dedupeKey, waiting)
    if (this.#breaker === undefined) this.#writer.add(waiting)
    else {
      // The latest, so that an event that Postgres cannot store in time does not keep the breaker open.
      this.#probed = event
      void this.#spool(waiting)
    }
    return promise
  }

  async #write(batch: Waiting[], markLate: () => void): Promise<void> {
    batch.sort((a, b) => (a.event.dedupeKey < b.event.dedupeKey ? -1 : 1))
    const byId = new Map(batch.map((waiting) => [waiting.event.id, waiting]))
    const storing = this.#options.storeBatch(
      batch.map(({ event }) => event),
      ({ id }, acceptance) => this.#complete(byId.get(id), acceptance),
    )
    const oldestMs = batch.reduce(
      (oldest, { sinceMs }) => Math.min(oldest, sinceMs),
      Number.POSITIVE_INFINITY,
    )
    const leftMs = oldestMs + this.#patienceMs - performance.now()
    const outcome = await within(leftMs, storing, () => 'late' as const)
    if (outcome !== 'late' && outcome.kind === 'completed') {
      batch.forEach((waiting, index) => {
        const acceptance = outcome.acceptances[index] ?? 'unavailable'
        if (acceptance === 'unavailable') void this.#spool(waiting)
        else this.#complete(waiting, acceptance)
      })
      return
    }
    this.#openBreaker(batch, outcome === 'late' ? 'late' : 'error')
    for (const waiting of [...batch, ...this.#writer.takeWaiting()]) void this.#spool(waiting)
    if (outcome !== 'late') return
    markLate()
    // The statement keeps its slot until it ends. Events that it stores after all meet their own keys when the spool is drained.
    await storing
  }

  #openBreaker(batch: readonly Waiting[], cause: 'error' | 'late'): void {
    const [smallest] = batch.map(({ event }) => event).toSorted((a, b) => a.payloadBytes - b.payloadBytes)
    this.#probed ??= smallest
    if (this.#breaker) return
    this.#breaker = new AbortController()
    this.#options.onBreaker?.(true)
    void this.#probeUntilClosed(cause, this.#breaker.signal)
  }

  async #probeUntilClosed(cause: 'error' | 'late', signal: AbortSignal): Promise<void> {
    const { probeEveryMs = defaultProbeEveryMs, onBreaker } = this.#options
    const wait = this.#options.sleep ?? sleep
    let waitMs = cause === 'late' ? probeEveryMs : Math.min(firstProbeAfterErrorMs, probeEveryMs)
    while (!signal.aborted) {
      await wait(waitMs, signal)
      if (signal.aborted) return
      const startedAtMs = performance.now()
      // In the slot of a batch: no probe while late statements occupy all slots.
      if (await this.#writer.tryInSlot(() => this.#probe())) {
        this.#breaker = undefined
        this.#probed = undefined
        onBreaker?.(false)
        return
      }
      waitMs = Math.max(0, startedAtMs + probeEveryMs - performance.now())
    }
  }

  /** Stores one spooled event and returns whether Postgres did so in time. */
  async #probe(): Promise<boolean> {
    if (this.#probed === undefined) return false
    // No new delivery cycle: only a call that is answered from Postgres starts one, as in the drain.
    const { retriesOnRedelivery: _retries, ...event } = this.#probed
    const startedAtMs = performance.now()
    const outcome = await this.#options.storeBatch([event], () => undefined)
    const isInTime = performance.now() - startedAtMs <= this.#patienceMs
    return isInTime && outcome.kind === 'completed' && outcome.acceptances[0] !== 'unavailable'
  }

  async #spool(waiting: Waiting): Promise<void> {
    if (waiting.isCompleted) return
    this.#complete(waiting, await this.#options.spool(waiting.event))
  }

  /** Answers an event's callers; the first result counts. */
  #complete(waiting: Waiting | undefined, acceptance: Acceptance): void {
    if (waiting === undefined || waiting.isCompleted) return
    waiting.isCompleted = true
    this.#byKey.delete(waiting.event.dedupeKey)
    waiting.resolve(acceptance)
  }
}

/** Dependencies of `SizeClassQueues`. */
export interface SizeClassQueuesOptions extends Pick<EventQueueOptions, 'storeBatch' | 'spool'> {
  /** Stores large events on a connection of their own with a longer time-out. */
  readonly storeLarge: EventQueueOptions['storeBatch']
  /** Called once per change of a queue's circuit breaker. Must not throw. */
  onBreaker?(queue: 'small' | 'large', isOpen: boolean): void
}

/** Larger events take Postgres tens of milliseconds and more. */
const smallBytesMax = 256 * 1024
/** The only vendor with such bodies waits 10 s for an answer. */
const largePatienceMs = 6_000

/** Two event queues, so that large events neither delay small ones nor spread their failures. Large ones are stored one batch at a time. */
export class SizeClassQueues implements Accepting {
  readonly #small: EventQueue
  readonly #large: EventQueue

  constructor({ storeBatch, storeLarge, spool, onBreaker }: SizeClassQueuesOptions) {
    this.#small = new EventQueue({
      ...{ storeBatch, spool },
      onBreaker: (isOpen) => onBreaker?.('small', isOpen),
    })
    this.#large = new EventQueue({
      ...{ storeBatch: storeLarge, spool, batchesMax: 1, patienceMs: largePatienceMs },
      onBreaker: (isOpen) => onBreaker?.('large', isOpen),
    })
  }

  /** Queues whose circuit breaker is open: 0 to 2. */
  get openBreakers(): number {
    return [this.#small, this.#large].filter(({ isBreakerOpen }) => isBreakerOpen).length
  }

  /** Events without a result yet. */
  get size(): number {
    return this.#small.size + this.#large.size
  }

  /** Ends the probes for good. Idempotent. */
  close(): void {
    this.#small.close()
    this.#large.close()
  }

  accept(event: ReceivedEvent): Promise<Acceptance> {
    return (event.payloadBytes > smallBytesMax ? this.#large : this.#small).accept(event)
  }
}

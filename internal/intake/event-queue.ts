import { within } from '#internal/base/index.ts'
import {
  type Acceptance,
  type BatchOutcome,
  type OnCompleted,
  type ReceivedEvent,
  sizeOfEvent,
} from '#internal/events/index.ts'
import { type Sleep, sleep } from '#internal/process/index.ts'
import { BatchWriter } from '#internal/storage/index.ts'

/** Dependencies and limits of an event queue. */
export interface EventQueueOptions {
  /**
   * Stores events, which must be sorted by dedupe key and without duplicates. Can report the results of single events early. Never rejects.
   */
  storeBatch(events: readonly ReceivedEvent[], onCompleted: OnCompleted): Promise<BatchOutcome>
  /** Keeps an event in the spool until Postgres is available again. Never rejects. */
  spool(event: ReceivedEvent): Promise<'queued' | 'unavailable'>
  /** Time in milliseconds for which an event waits for Postgres before it is spooled; default 2 000. */
  readonly patienceMs?: number
  /** Interval in milliseconds between probes while the circuit breaker is open; default 1 000. */
  readonly probeEveryMs?: number
  /** Default: waits in real time. */
  readonly sleep?: Sleep
  /** Called once per change of the circuit breaker. Must not throw. */
  onBreaker?(isOpen: boolean): void
  /** Maximum batches in flight; default 2. */
  readonly batchesMax?: number
}

/** Maximum rows and bytes of one statement, for storing and for spooling. */
export const eventBatch = {
  itemsMax: 500,
  bytesMax: 4 * 1024 * 1024,
  bytesOf: ({ event }: { readonly event: ReceivedEvent }): number => sizeOfEvent(event),
}
/**
 * Number of waiting events at which a second batch is sent in parallel. With fewer events, all callers share one commit instead of
 * alternating between two. The value 64 stored 4 % more events per second than 32 (64 callers) and 9 % more than 256 (256; 2026-11).
 */
const parallelItems = 64
const defaultPatienceMs = 2_000
const defaultProbeEveryMs = 1_000
/**
 * Delay of the first probe after an error of Postgres, in milliseconds. Usually one connection was dropped, and the next connection of the
 * pool works.
 */
const firstProbeAfterErrorMs = 100

interface Waiting {
  readonly event: ReceivedEvent
  readonly sinceMs: number
  isCompleted: boolean
  readonly completed: Promise<Acceptance>
  resolve(acceptance: Acceptance): void
}

/**
 * Writes events that arrive together in one commit. An event with the dedupe key of a queued event shares its result. The limited memory
 * for bodies also limits the queue: each waiting call keeps the memory of its body reserved.
 * Circuit breaker: the first batch that fails or is late opens the breaker. While it is open, events are spooled without a statement. Each
 * second a probe stores one spooled event, and so also detects locks, full disks and read-only servers. The first probe that succeeds in
 * time closes the breaker. If probe and drain both store an event, the dedupe key makes the second a duplicate.
 */
export class EventQueue {
  readonly #options: EventQueueOptions
  readonly #patienceMs: number
  readonly #writer: BatchWriter<Waiting>
  readonly #byKey = new Map<string, Waiting>()
  readonly #closing = new AbortController()
  #isBreakerOpen = false
  #probed: ReceivedEvent | undefined

  constructor(options: EventQueueOptions) {
    this.#options = options
    this.#patienceMs = options.patienceMs ?? defaultPatienceMs
    this.#writer = new BatchWriter<Waiting>({
      ...eventBatch,
      batchesMax: options.batchesMax ?? 2,
      parallelItems,
      deferred: 'turn',
      write: (batch, markLate) => this.#write(batch, markLate),
    })
  }

  get size(): number {
    return this.#byKey.size
  }

  get isBreakerOpen(): boolean {
    return this.#isBreakerOpen
  }

  /** Stops the probes permanently. Idempotent. */
  close(): void {
    this.#closing.abort()
  }

  /** Stores an event, or spools it if Postgres does not respond in time. Never rejects. */
  accept(event: ReceivedEvent): Promise<Acceptance> {
    const original = this.#byKey.get(event.dedupeKey)
    if (original) return original.completed.then((outcome) => (outcome === 'stored' ? 'duplicate' : outcome))
    const { promise, resolve } = Promise.withResolvers<Acceptance>()
    const waiting: Waiting = {
      event,
      sinceMs: performance.now(),
      isCompleted: false,
      completed: promise,
      resolve,
    }
    this.#byKey.set(event.dedupeKey, waiting)
    if (!this.#isBreakerOpen) this.#writer.add(waiting)
    else {
      // The next probe stores the latest event: an earlier one that Postgres cannot store in time would keep the breaker open.
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
    // The events of the late statement were spooled. The statement still occupies one of the slots for batches in flight until it ends. If
    // the statement still stores the events, the drain of the spool finds duplicates.
    await storing
  }

  #openBreaker(batch: readonly Waiting[], cause: 'error' | 'late'): void {
    const [smallest] = batch.map(({ event }) => event).toSorted((a, b) => a.payloadBytes - b.payloadBytes)
    this.#probed ??= smallest
    if (this.#isBreakerOpen) return
    this.#isBreakerOpen = true
    this.#options.onBreaker?.(true)
    void this.#probeUntilClosed(cause)
  }

  async #probeUntilClosed(cause: 'error' | 'late'): Promise<void> {
    const { signal } = this.#closing
    const { probeEveryMs = defaultProbeEveryMs, onBreaker } = this.#options
    const wait = this.#options.sleep ?? sleep
    let waitMs = cause === 'late' ? probeEveryMs : Math.min(firstProbeAfterErrorMs, probeEveryMs)
    while (!signal.aborted) {
      await wait(waitMs, signal)
      if (signal.aborted) return
      const startedAtMs = performance.now()
      // A probe occupies one of the slots for batches in flight, so that no probe runs while late statements occupy all slots.
      if (await this.#writer.tryInSlot(() => this.#probe())) {
        this.#isBreakerOpen = false
        this.#probed = undefined
        onBreaker?.(false)
        return
      }
      waitMs = Math.max(0, startedAtMs + probeEveryMs - performance.now())
    }
  }

  /** Stores a spooled event. Returns true if Postgres stored it in time. */
  async #probe(): Promise<boolean> {
    if (this.#probed === undefined) return false
    // A spooled duplicate starts no new delivery cycle, neither in a probe nor in the drain, so the flag is removed.
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

  /** Sets the result of an event. Only the first result counts. */
  #complete(waiting: Waiting | undefined, acceptance: Acceptance): void {
    if (waiting === undefined || waiting.isCompleted) return
    waiting.isCompleted = true
    this.#byKey.delete(waiting.event.dedupeKey)
    waiting.resolve(acceptance)
  }
}

export interface SizeClassQueuesOptions extends Pick<EventQueueOptions, 'storeBatch' | 'spool'> {
  /** Stores large events over a separate connection with a longer timeout. */
  readonly storeLarge: EventQueueOptions['storeBatch']
  /** Called once per change of a queue's circuit breaker. Must not throw. */
  onBreaker?(queue: 'small' | 'large', isOpen: boolean): void
}

/** Maximum size of a small event. Larger events take Postgres tens of milliseconds or more. */
const smallBytesMax = 256 * 1024
/**
 * Time for which a large event waits for Postgres before it is spooled. The only vendor with such large bodies waits 10 s for a response.
 */
const largePatienceMs = 6_000

/** Two event queues, so that large events neither delay small events nor make them fail. Large events are stored one batch at a time. */
export class SizeClassQueues {
  readonly #small: EventQueue
  readonly #large: EventQueue

  constructor({ storeBatch, storeLarge, spool, onBreaker }: SizeClassQueuesOptions) {
    this.#small = new EventQueue({
      storeBatch,
      spool,
      onBreaker: (isOpen) => onBreaker?.('small', isOpen),
    })
    this.#large = new EventQueue({
      storeBatch: storeLarge,
      spool,
      batchesMax: 1,
      patienceMs: largePatienceMs,
      onBreaker: (isOpen) => onBreaker?.('large', isOpen),
    })
  }

  /** Number of open circuit breakers, 0 to 2. */
  get openBreakers(): number {
    return [this.#small, this.#large].filter(({ isBreakerOpen }) => isBreakerOpen).length
  }

  get size(): number {
    return this.#small.size + this.#large.size
  }

  /** Stops the probes permanently. Idempotent. */
  close(): void {
    this.#small.close()
    this.#large.close()
  }

  accept(event: ReceivedEvent): Promise<Acceptance> {
    return (event.payloadBytes > smallBytesMax ? this.#large : this.#small).accept(event)
  }
}

import type { Acceptance, ReceivedEvent } from '#internal/events/index.ts'
import { EventQueue, type EventQueueOptions } from './event-queue.ts'

/** Takes events in. */
export interface Accepting {
  /** Stores an event, or spools it when Postgres does not answer in time. Never rejects. */
  accept(event: ReceivedEvent): Promise<Acceptance>
}

/** What queues for two sizes work with. */
export interface SizedQueuesOptions extends Pick<EventQueueOptions, 'storeBatch' | 'spool'> {
  /** Stores large events, on a connection of their own with more time. */
  readonly storeLarge: EventQueueOptions['storeBatch']
  /** Called once per change of a queue's circuit breaker. Must not throw. */
  onBreaker?(queue: 'small' | 'large', isOpen: boolean): void
}

/** Larger ones take Postgres tens of milliseconds and more. */
const smallBytesMax = 256 * 1024
/** The only vendor with bodies of this size waits 10 s. */
const largePatienceMs = 6_000

/**
 * Keeps large events from holding up small ones: each size has its own queue, and what goes wrong with one moves nothing of the
 * other. Large ones go one batch after another.
 */
export class SizedQueues implements Accepting {
  readonly #small: EventQueue
  readonly #large: EventQueue

  constructor({ storeBatch, storeLarge, spool, onBreaker }: SizedQueuesOptions) {
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

  /** Queues whose circuit breaker is open. */
  get openBreakers(): number {
    return [this.#small, this.#large].filter(({ isBreakerOpen }) => isBreakerOpen).length
  }

  /** Ends the probes of Postgres. Repeating it is harmless. */
  close(): void {
    this.#small.close()
    this.#large.close()
  }

  /** Events whose fate is open. */
  get size(): number {
    return this.#small.size + this.#large.size
  }

  accept(event: ReceivedEvent): Promise<Acceptance> {
    return (event.payloadBytes > smallBytesMax ? this.#large : this.#small).accept(event)
  }
}

import type { EventId } from '#internal/base/index.ts'
import type { ClaimedDelivery } from '#internal/events/index.ts'
import type { Place } from './capacity.ts'
import type { Conclusion } from './decide.ts'

/**
 * State of a delivery in this process; README.md has the diagram. `claimed`: waits for payload memory. `loading`: its event is being
 * read. `sending`: the callback is being called. `concluded`: its end is decided and waits for a statement. `completing`: the end
 * is being written. `released`: handed back for other processes. `lost`: its lease ended, or its end could not be written.
 */
export type DeliveryState =
  | 'claimed'
  | 'loading'
  | 'sending'
  | 'concluded'
  | 'completing'
  | 'done'
  | 'released'
  | 'lost'

const transitions: Readonly<Record<DeliveryState, readonly DeliveryState[]>> = {
  claimed: ['loading', 'concluded', 'released', 'lost'],
  loading: ['sending', 'concluded', 'released'],
  sending: ['concluded', 'released'],
  concluded: ['completing', 'lost'],
  // Back to `concluded` where this process claimed the row again while its end was being written.
  completing: ['concluded', 'done', 'lost'],
  done: [],
  released: [],
  lost: [],
}

/** A claimed delivery from its claim to its end, with everything that this process knows of it. */
export class Delivery {
  /** Capacity that it occupies until it is concluded. */
  readonly place: Place
  /** Payload memory that it holds. */
  payloadBytesHeld: number | undefined
  /** The callback was called, whatever the result. */
  wasCalled = false
  /** Set from `concluded` on. */
  conclusion: Conclusion | undefined
  #claim: ClaimedDelivery
  #leaseEndsMs: number
  #state: DeliveryState = 'claimed'

  /** @param leaseEndsMs by `performance.now()` */
  constructor(claim: ClaimedDelivery, leaseEndsMs: number, place: Place) {
    this.#claim = claim
    this.#leaseEndsMs = leaseEndsMs
    this.place = place
  }

  /** The latest claim of the row: the one that an ending has to name. */
  get claim(): ClaimedDelivery {
    return this.#claim
  }

  get id(): EventId {
    return this.#claim.eventId
  }

  /** End of its lease, by `performance.now()`. */
  get leaseEndsMs(): number {
    return this.#leaseEndsMs
  }

  get state(): DeliveryState {
    return this.#state
  }

  /** Changes the state. @throws Error for a change that the transition table does not have */
  to(next: DeliveryState): void {
    if (!transitions[this.#state].includes(next))
      throw new Error(`a delivery cannot go from ${this.#state} to ${next}`)
    this.#state = next
  }

  /** Notes a renewed lease; nothing where the row was claimed again after `claim`. */
  renewed(claim: ClaimedDelivery, leaseEndsMs: number): void {
    if (this.#claim === claim) this.#leaseEndsMs = leaseEndsMs
  }

  /**
   * Continues under a new claim of the same row, after the lease had ended: a call in progress goes on, and an ending that is not
   * written yet is written under the new claim. False where the ending is of an earlier attempt, so that the delivery has to start anew.
   */
  adopt(claim: ClaimedDelivery, leaseEndsMs: number): boolean {
    const { cycle, attempts } = this.#claim
    const isSameAttempt = claim.cycle === cycle && claim.attempts === attempts
    if (this.conclusion !== undefined && !isSameAttempt) return false
    this.#claim = claim
    this.#leaseEndsMs = leaseEndsMs
    return true
  }
}

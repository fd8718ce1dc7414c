import {
  type ClaimedDelivery,
  type DeliveryId,
  deliveryIdOf,
  type Ending,
  type QueueId,
} from '#internal/events/index.ts'
import type { Place } from './capacity.ts'
import type { QueueChange } from './decide.ts'

/**
 * State of a delivery; README.md contains the state diagram. `claimed`: waits for payload memory. `loading`: its event is being read.
 * `sending`: the callback is being called. `concluded`: its outcome is decided but not written. `completing`: its outcome is being written.
 * `released`: returned to the queue for other processes. `lost`: its lease expired, or its outcome could not be written.
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
  loading: ['sending', 'concluded', 'released', 'lost'],
  sending: ['concluded', 'released'],
  concluded: ['completing', 'lost'],
  // Returns to `concluded` if this process claimed the row again while writing its outcome.
  completing: ['concluded', 'done', 'lost'],
  done: [],
  released: [],
  lost: [],
}

export class Delivery {
  readonly id: DeliveryId
  /** Occupied until the delivery is concluded. */
  readonly place: Place
  payloadBytesHeld: number | undefined
  wasCalled = false
  /** Set from state `concluded` on. */
  ending: Ending | undefined
  /** Change of its tenant queue that is not written yet. */
  queueChange: QueueChange | undefined
  #claim: ClaimedDelivery
  #leaseEndsMs: number
  #state: DeliveryState = 'claimed'

  /** @param leaseEndsMs expiry time of the lease, by `performance.now()` */
  constructor(claim: ClaimedDelivery, leaseEndsMs: number, place: Place) {
    this.id = deliveryIdOf(claim)
    this.#claim = claim
    this.#leaseEndsMs = leaseEndsMs
    this.place = place
  }

  /** Latest claim of the row in the queue. A completion under an earlier claim is ignored. */
  get claim(): ClaimedDelivery {
    return this.#claim
  }

  get queueId(): QueueId {
    return this.place.queueId
  }

  get leaseEndsMs(): number {
    return this.#leaseEndsMs
  }

  get state(): DeliveryState {
    return this.#state
  }

  /** Changes the state. @throws Error for a change that the transition table does not contain */
  to(next: DeliveryState): void {
    if (!transitions[this.#state].includes(next))
      throw new Error(`delivery state cannot change from ${this.#state} to ${next}`)
    this.#state = next
  }

  /** Records a renewal of `claim`. Does nothing if the row was claimed again afterwards. */
  renewed(claim: ClaimedDelivery, leaseEndsMs: number): void {
    if (this.#claim === claim) this.#leaseEndsMs = leaseEndsMs
  }

  /**
   * Continues under a new claim of the same row: a call in progress goes on, and an unwritten outcome is written under the new claim.
   * Returns false if the outcome belongs to an earlier attempt; the delivery must then start again.
   */
  adopt(claim: ClaimedDelivery, leaseEndsMs: number): boolean {
    const { cycle, attempts } = this.#claim
    const isSameAttempt = claim.cycle === cycle && claim.attempts === attempts
    if (this.ending !== undefined && !isSameAttempt) return false
    this.#claim = claim
    this.#leaseEndsMs = leaseEndsMs
    return true
  }
}

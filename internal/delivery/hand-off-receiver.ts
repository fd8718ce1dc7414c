import {
  type ClaimedDelivery,
  decodeHandOff,
  encodeOffer,
  handOffChannelOf,
  type QueueId,
  queueIdOf,
  refusedMax,
} from '#internal/events/index.ts'
import { BatchWriter } from '#internal/storage/index.ts'
import { type Capacity, queueDeliveriesMax } from './capacity.ts'
import type { Deliverer } from './deliverer.ts'

/** The callbacks must not throw. */
export interface HandOffReceiverOptions {
  readonly leaseToken: string
  readonly capacity: Capacity
  readonly deliverer: Deliverer
  /** Publishes an offer: a message by which this process offers to take events from intake on this channel. May reject. */
  publishOffer(message: string, channel: string): Promise<unknown>
  leaseMs(): number
  /** Returns the tenant queues whose deliveries are not accepted, or `all`. */
  refused(): ReadonlySet<QueueId> | 'all'
  /** Releases deliveries for which no delivery slot is free. Never rejects. */
  release(deliveries: readonly ClaimedDelivery[]): Promise<void>
  onAccepted(count: number): void
  /** Called when a tenant that the last offer accepts has few free delivery slots left. Call `offer` soon. */
  onFull(): void
}

/** Minimum free delivery slots of a queue for hand-offs. With fewer, its events are claimed, since claims divide the slots fairly. */
const queueRoomMin = queueDeliveriesMax / 4
/** Minimum free shared delivery slots for hand-offs. With fewer, all events are claimed. */
const roomMin = 2 * queueDeliveriesMax
/** Maximum number of offers whose times are kept. An offer is made each second, and when a tenant has few free delivery slots left. */
const offersKept = 256
const releasesMax = 500

/**
 * Receives events that intake handed to this process under its lease. Accepts events of tenants that have free delivery slots and are
 * neither paused nor in trouble. Claims divide the slots fairly among tenants that have more work than slots.
 */
export class HandOffReceiver {
  readonly #options: HandOffReceiverOptions
  /** Time of each offer by its number, as of `performance.now()`. */
  readonly #offeredAtMs = new Map<number, number>()
  readonly #releases: BatchWriter<ClaimedDelivery>
  #lastRefused: ReadonlySet<QueueId> | 'all' = 'all'
  #number = 0
  #isClosed = false

  constructor(options: HandOffReceiverOptions) {
    this.#options = options
    this.#releases = new BatchWriter({
      itemsMax: releasesMax,
      deferred: 'microtask',
      write: (deliveries) => options.release(deliveries),
    })
  }

  get channel(): string {
    return handOffChannelOf(this.#options.leaseToken)
  }

  /** Announces the accepted tenant queues. Repeat it each second. @throws the error of `publishOffer` */
  async offer(): Promise<void> {
    const refused = this.#isClosed ? 'all' : this.#refused()
    this.#lastRefused = refused === 'all' ? refused : new Set(refused)
    this.#number += 1
    this.#offeredAtMs.set(this.#number, performance.now())
    this.#offeredAtMs.delete(this.#number - offersKept)
    const { leaseToken, leaseMs, publishOffer } = this.#options
    const offer = { leaseToken, number: this.#number, leaseMs: leaseMs(), refused }
    await publishOffer(encodeOffer(offer), this.channel)
  }

  /** Announces that this process accepts nothing more. Deliveries that still arrive are released. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true
    await this.offer().catch(() => undefined)
  }

  /** Resolves when the deliveries that were not accepted so far have been released, or after `msMax`. Never rejects. */
  released(msMax: number): Promise<void> {
    return this.#releases.drain(msMax)
  }

  /**
   * Starts the deliveries of a message. Releases those without a free place (after `close`: all), and ignores those whose lease can have
   * expired. A message can have waited for any time, so the lease is counted from the offer that it names: the lease began later.
   */
  receive(message: string): void {
    const handOff = decodeHandOff(message)
    if (handOff === undefined) return
    const { deliverer, capacity, onAccepted, onFull } = this.#options
    const offeredAtMs = this.#offeredAtMs.get(handOff.offerNumber)
    if (offeredAtMs === undefined) return
    const leaseEndsMs = offeredAtMs + handOff.leaseMs
    if (performance.now() >= leaseEndsMs) return
    let accepted = 0
    let isFull = false
    for (const { claim, content } of handOff.events) {
      if (!this.#isClosed && deliverer.takeHanded(claim, content, leaseEndsMs)) accepted += 1
      else this.#releases.add(claim)
      const queueId = queueIdOf(claim)
      isFull ||= !this.#isRefused(queueId) && capacity.roomOf(claim.tenantId, queueId) < queueRoomMin
    }
    if (accepted > 0) onAccepted(accepted)
    if (isFull) onFull()
  }

  #isRefused(queueId: QueueId): boolean {
    return this.#lastRefused === 'all' || this.#lastRefused.has(queueId)
  }

  #refused(): readonly QueueId[] | 'all' {
    const { capacity, refused } = this.#options
    const known = refused()
    if (known === 'all' || capacity.room < roomMin) return 'all'
    const all = new Set(known)
    for (const [queueId, room] of capacity.queueRooms()) if (room < queueRoomMin) all.add(queueId)
    return all.size > refusedMax ? 'all' : [...all]
  }
}

import { Shares, setNewest, type TenantId } from '#internal/base/index.ts'
import { destinationOfQueue, type QueueId } from '#internal/events/index.ts'

/** Number of delivery slots ("places") of a process, shared by all tenants. A delivery holds a place from its claim to its response. */
const sharedMax = 1_024
/** Additional places for callbacks that are responsive or not called yet, for when hanging callbacks occupy all shared places. */
const reservedMax = 512
/** A delivery that takes longer loses its reserved place. Its callback is then unresponsive until a response arrives within `answerMs`. */
const responsiveMs = 500
/** Maximum time from claim to response of a responsive callback. Above `responsiveMs`, since all responses are late on a busy machine. */
const answerMs = 2_000
/** Maximum deliveries in progress in a process, including those that lost their reserved place. */
const heldMax = 2_048
/** Maximum callbacks whose responsiveness is remembered. */
export const rememberedMax = 10_000
/** Maximum deliveries of one tenant queue: 640 per second and process at 100 ms per response. */
export const queueDeliveriesMax = 64
/** Maximum deliveries of one tenant over all its queues, so that a tenant with many destinations cannot occupy all places. */
export const tenantDeliveriesMax = sharedMax / 4
/** Payload memory of a process. A tenant can use a quarter of it. */
const bytesMax = 64 * 1024 * 1024
/** Time for which this process claims nothing from a tenant queue whose circuit breaker it opened, while that is written to Postgres. */
const holdBackMs = 2_000

/** `responsive`: the last call ended in time. `unresponsive`: a call is late, or the last one ended late. `unknown`: not called yet. */
export type Responsiveness = 'responsive' | 'unresponsive' | 'unknown'

/** Slot that a delivery occupies from `take` to `give`. */
export interface Place {
  readonly tenantId: TenantId
  readonly queueId: QueueId
  readonly sinceMs: number
  kind: 'shared' | 'reserved' | 'overdue'
}

/** Limits the deliveries and the payload memory of a process. Each `take` requires one `give`. */
export class Capacity {
  readonly #queuesOf: (tenantId: TenantId) => readonly QueueId[]
  readonly #now: () => number
  readonly #heldByTenant = new Map<TenantId, number>()
  readonly #heldByQueue = new Map<QueueId, number>()
  /** Places held for less than `responsiveMs` at the last call of `#age`, oldest first. */
  readonly #young = new Set<Place>()
  readonly #responsiveness = new Map<QueueId, Responsiveness>()
  readonly #heldBackUntilMs = new Map<QueueId, number>()
  readonly #bytes = new Shares(bytesMax)
  readonly #counts = { shared: 0, reserved: 0, overdue: 0 }

  /** @param queuesOf returns all queues of a tenant, including those without deliveries in this process */
  constructor(
    queuesOf: (tenantId: TenantId) => readonly QueueId[],
    now: () => number = () => performance.now(),
  ) {
    this.#queuesOf = queuesOf
    this.#now = now
  }

  /** Deliveries in progress, including those that lost their reserved place. */
  get count(): number {
    return this.#counts.shared + this.#counts.reserved + this.#counts.overdue
  }

  /** Number of free shared places. */
  get room(): number {
    return Math.max(0, Math.min(sharedMax - this.#counts.shared, heldMax - this.count))
  }

  get reservedRoom(): number {
    this.#age()
    return Math.max(0, Math.min(reservedMax - this.#counts.reserved, heldMax - this.count))
  }

  get bytesRoom(): number {
    return bytesMax - this.#bytes.taken
  }

  responsivenessOf(queueId: QueueId): Responsiveness {
    this.#age()
    return this.#responsiveness.get(queueId) ?? 'unknown'
  }

  /**
   * Returns the number of free places of each tenant queue with fewer than `queueDeliveriesMax`: queues with deliveries in this process,
   * and all queues of a tenant that is almost full. The number is 0 for queues passed to `holdBack` in the last 2 s.
   */
  queueRooms(): Map<QueueId, number> {
    const rooms = new Map<QueueId, number>()
    for (const queueId of this.#heldByQueue.keys())
      rooms.set(queueId, this.#roomIn(destinationOfQueue(queueId).tenantId, queueId))
    for (const [tenantId, held] of this.#heldByTenant)
      if (held > tenantDeliveriesMax - queueDeliveriesMax)
        for (const queueId of this.#queuesOf(tenantId)) rooms.set(queueId, this.#roomIn(tenantId, queueId))
    for (const [queueId, untilMs] of this.#heldBackUntilMs) {
      if (this.#now() < untilMs) rooms.set(queueId, 0)
      else this.#heldBackUntilMs.delete(queueId)
    }
    return rooms
  }

  roomOf(tenantId: TenantId, queueId: QueueId): number {
    const isHeldBack = this.#now() < (this.#heldBackUntilMs.get(queueId) ?? 0)
    return isHeldBack ? 0 : this.#roomIn(tenantId, queueId)
  }

  #roomIn(tenantId: TenantId, queueId: QueueId): number {
    const ofQueue = queueDeliveriesMax - (this.#heldByQueue.get(queueId) ?? 0)
    const ofTenant = tenantDeliveriesMax - (this.#heldByTenant.get(tenantId) ?? 0)
    return Math.max(0, Math.min(ofQueue, ofTenant))
  }

  /** Sets the free places of a tenant queue to 0 for 2 s, while its open circuit breaker is being written to Postgres. */
  holdBack(queueId: QueueId): void {
    this.#heldBackUntilMs.set(queueId, this.#now() + holdBackMs)
  }

  /**
   * Takes a place without checking the limits. The rows of one claim can exceed them: events are handed off during a claim, and
   * each queue of a tenant can get all of the tenant's free places.
   */
  take(tenantId: TenantId, queueId: QueueId): Place {
    const place: Place = {
      tenantId,
      queueId,
      sinceMs: this.#now(),
      kind: this.room > 0 ? 'shared' : 'reserved',
    }
    this.#counts[place.kind] += 1
    this.#young.add(place)
    this.#heldByTenant.set(tenantId, (this.#heldByTenant.get(tenantId) ?? 0) + 1)
    this.#heldByQueue.set(queueId, (this.#heldByQueue.get(queueId) ?? 0) + 1)
    return place
  }

  /** Returns true if the queue had no other free place. @param called whether the callback was called */
  give(place: Place, called: boolean): boolean {
    this.#age()
    const { tenantId, queueId } = place
    this.#young.delete(place)
    if (called && this.#now() - place.sinceMs < answerMs) this.#note(queueId, 'responsive')
    this.#counts[place.kind] -= 1
    const wasFull = this.#roomIn(tenantId, queueId) === 0
    decrement(this.#heldByQueue, queueId)
    decrement(this.#heldByTenant, tenantId)
    return wasFull
  }

  /** Returns false if too little memory is free or the tenant has used its quarter. A single payload may exceed the quarter. */
  takeBytes(bytes: number, tenantId: TenantId): boolean {
    return this.#bytes.take(bytes, tenantId)
  }

  giveBytes(bytes: number, tenantId: TenantId): void {
    this.#bytes.give(bytes, tenantId)
  }

  #age(): void {
    const sinceMs = this.#now() - responsiveMs
    for (const place of this.#young) {
      if (place.sinceMs > sinceMs) return
      this.#young.delete(place)
      this.#note(place.queueId, 'unresponsive')
      if (place.kind !== 'reserved') continue
      place.kind = 'overdue'
      this.#counts.reserved -= 1
      this.#counts.overdue += 1
    }
  }

  #note(queueId: QueueId, responsiveness: Responsiveness): void {
    setNewest(this.#responsiveness, queueId, responsiveness, rememberedMax)
  }
}

/** Subtracts 1 from a count, and removes a count of 0. */
function decrement<Key>(counts: Map<Key, number>, key: Key): void {
  const count = counts.get(key) ?? 0
  if (count > 1) counts.set(key, count - 1)
  else counts.delete(key)
}

import { Shares } from '#internal/base/index.ts'

/** Deliveries that one process holds at a time for any tenant, from claim to answer. */
const sharedMax = 1_024
/**
 * Places beyond those, reserved for responsive callbacks, and one at a time for each that was not called yet: a thousand callbacks
 * that hang occupy the shared places for their whole time-out, while these go on.
 */
const reservedMax = 512
/** A delivery that takes longer gives up its reserved place, and its callback is unresponsive until it answers. */
const responsiveMs = 500
/** An answer within that makes a callback responsive again: while the machine is busy all answers are delayed. */
const answerMs = 2_000
/** Deliveries held in all, those that gave up their reserved place included. */
const heldMax = 2_048
/** Callbacks whose responsiveness is remembered; beyond, the one recorded longest ago is forgotten. */
const rememberedMax = 10_000
/** At 100 ms an answer that is 640 deliveries a second for one tenant in each process. */
export const tenantDeliveriesMax = 64
/** Payload memory; a tenant gets a quarter of it. */
const bytesMax = 64 * 1024 * 1024
/** By then an opened breaker is in Postgres, or it could not be written and opens again. */
const holdBackMs = 2_000

/** `responsive`: answered its last call in time. `unresponsive`: a call is late, or was to its end. `unknown`: not called yet. */
export type Responsiveness = 'responsive' | 'unresponsive' | 'unknown'

/** A delivery's place, from `take` to `give`. */
export interface Place {
  readonly tenantId: string
  readonly sinceMs: number
  kind: 'shared' | 'reserved' | 'overdue'
}

/** Bounds the deliveries and the payload memory of a process. Each `take` needs one `give`. */
export class Capacity {
  readonly #now: () => number
  readonly #held = new Map<string, number>()
  /** Places that were taken less than `responsiveMs` ago, as of the last look, in their order. */
  readonly #young = new Set<Place>()
  readonly #responsiveness = new Map<string, Responsiveness>()
  readonly #heldBackUntilMs = new Map<string, number>()
  readonly #bytes = new Shares(bytesMax)
  readonly #counts = { shared: 0, reserved: 0, overdue: 0 }

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Deliveries held. */
  get count(): number {
    return this.#counts.shared + this.#counts.reserved + this.#counts.overdue
  }

  /** Free shared places. */
  get room(): number {
    return Math.max(0, Math.min(sharedMax - this.#counts.shared, heldMax - this.count))
  }

  /** Free places beyond those, for callbacks that are not unresponsive. */
  get reservedRoom(): number {
    this.#age()
    return Math.max(0, Math.min(reservedMax - this.#counts.reserved, heldMax - this.count))
  }

  /** Free payload memory. */
  get bytesRoom(): number {
    return bytesMax - this.#bytes.taken
  }

  /** Returns how a tenant's callback answered this process. */
  responsivenessOf(tenantId: string): Responsiveness {
    this.#age()
    return this.#responsiveness.get(tenantId) ?? 'unknown'
  }

  /** Free places of each tenant that has deliveries here or is held back. */
  tenantRooms(): Map<string, number> {
    const rooms = new Map<string, number>()
    for (const [tenantId, held] of this.#held) rooms.set(tenantId, Math.max(0, tenantDeliveriesMax - held))
    for (const [tenantId, untilMs] of this.#heldBackUntilMs) {
      if (this.#now() < untilMs) rooms.set(tenantId, 0)
      else this.#heldBackUntilMs.delete(tenantId)
    }
    return rooms
  }

  /** Leaves no room for a tenant for 2 s, until its open breaker is in Postgres. */
  holdBack(tenantId: string): void {
    this.#heldBackUntilMs.set(tenantId, this.#now() + holdBackMs)
  }

  /** Takes a place; the claim was bounded by the room. */
  take(tenantId: string): Place {
    const place: Place = { tenantId, sinceMs: this.#now(), kind: this.room > 0 ? 'shared' : 'reserved' }
    this.#counts[place.kind] += 1
    this.#young.add(place)
    this.#held.set(tenantId, (this.#held.get(tenantId) ?? 0) + 1)
    return place
  }

  /** Gives a place back. Returns whether its tenant had all that it may have. @param called whether the callback was called */
  give(place: Place, called: boolean): boolean {
    this.#age()
    const { tenantId } = place
    this.#young.delete(place)
    if (called && this.#now() - place.sinceMs < answerMs) this.#note(tenantId, 'responsive')
    this.#counts[place.kind] -= 1
    const held = this.#held.get(tenantId) ?? 0
    const left = held - 1
    if (left > 0) this.#held.set(tenantId, left)
    else this.#held.delete(tenantId)
    return held >= tenantDeliveriesMax
  }

  /** Takes payload memory; false when there is none, or the tenant has its quarter. */
  takeBytes(bytes: number, tenantId: string): boolean {
    return this.#bytes.take(bytes, tenantId)
  }

  /** Undoes a `takeBytes` that gave true. */
  giveBytes(bytes: number, tenantId: string): void {
    this.#bytes.give(bytes, tenantId)
  }

  #age(): void {
    const sinceMs = this.#now() - responsiveMs
    for (const place of this.#young) {
      if (place.sinceMs > sinceMs) return
      this.#young.delete(place)
      this.#note(place.tenantId, 'unresponsive')
      if (place.kind !== 'reserved') continue
      place.kind = 'overdue'
      this.#counts.reserved -= 1
      this.#counts.overdue += 1
    }
  }

  #note(tenantId: string, responsiveness: Responsiveness): void {
    this.#responsiveness.delete(tenantId)
    this.#responsiveness.set(tenantId, responsiveness)
    if (this.#responsiveness.size <= rememberedMax) return
    for (const oldest of this.#responsiveness.keys()) {
      this.#responsiveness.delete(oldest)
      return
    }
  }
}

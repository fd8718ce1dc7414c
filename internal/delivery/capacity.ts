import { Shares } from '#internal/base/index.ts'

/** Shared places: deliveries of any tenant that a process holds from claim to answer. */
const sharedMax = 1_024
/**
 * Further places for responsive callbacks, and one for each callback that was not called yet, so that a thousand callbacks that hang in
 * the shared places for their whole time-out do not block these.
 */
const reservedMax = 512
/** A delivery that takes longer loses its reserved place, and its callback is unresponsive until it answers. */
const responsiveMs = 500
/** An answer within this time makes a callback responsive; longer than `responsiveMs`, since a busy machine delays all answers. */
const answerMs = 2_000
/** All deliveries that a process holds, with those that lost their reserved place. */
const heldMax = 2_048
/** Callbacks that are remembered. */
const rememberedMax = 10_000
/** Places of one tenant: 640 deliveries per second and process at 100 ms per answer. */
export const tenantDeliveriesMax = 64
/** Payload memory; a tenant gets a quarter of it. */
const bytesMax = 64 * 1024 * 1024
/** Time after which an opened breaker is in Postgres, or could not be written and opens again. */
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
  /** Places taken less than `responsiveMs` before the last update, oldest first. */
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

  /** Free reserved places. */
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

  /** Gives a place back. Returns whether its tenant had no free place. @param called whether the callback was called */
  give(place: Place, called: boolean): boolean {
    this.#age()
    const { tenantId } = place
    this.#young.delete(place)
    if (called && this.#now() - place.sinceMs < answerMs) this.#note(tenantId, 'responsive')
    this.#counts[place.kind] -= 1
    const held = this.#held.get(tenantId) ?? 0
    if (held > 1) this.#held.set(tenantId, held - 1)
    else this.#held.delete(tenantId)
    return held >= tenantDeliveriesMax
  }

  /** Takes payload memory; returns false if there is not enough, or the tenant has its quarter. */
  takeBytes(bytes: number, tenantId: string): boolean {
    return this.#bytes.take(bytes, tenantId)
  }

  /** Undoes a successful `takeBytes`. */
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
    setNewest(this.#responsiveness, tenantId, responsiveness)
  }
}

/** Sets the newest entry of a map; of more than 10 000 entries the oldest is forgotten. */
export function setNewest<Value>(map: Map<string, Value>, key: string, value: Value): void {
  map.delete(key)
  map.set(key, value)
  const [oldest] = map.size > rememberedMax ? map.keys() : []
  if (oldest !== undefined) map.delete(oldest)
}

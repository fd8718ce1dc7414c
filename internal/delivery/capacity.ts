import { Shares } from '#internal/base/index.ts'

/** Deliveries that one process holds at a time for anybody, from claim to answer. */
const deliveriesMax = 1_024
/**
 * Beyond those, for callbacks that answer, and one at a time for those nobody has called yet: a thousand that hang fill the others
 * for their whole time-out, and these go on.
 */
const quickMax = 512
/** Who takes longer than that gives up its place among the quick, and gets no more until it answers. */
const quickMs = 500
/** Who answers within that is quick again: a moment in which the machine is busy delays everybody's answers. */
const answerMs = 2_000
/** All in all: what was quick and hangs now gives up its place and is still held. */
const heldMax = 2_048
/** Callbacks whose pace is known; of more the one known longest is forgotten. */
const pacesMax = 10_000
/** At 100 ms an answer that is 640 deliveries a second for one tenant in each process. */
export const tenantDeliveriesMax = 64
/** Texts in memory; a tenant gets a quarter of them. */
const bytesMax = 64 * 1024 * 1024

/** Until then an opened breaker is in Postgres, or it could not be written and opens again. */
const holdBackMs = 2_000

/** `quick`: it answered when it was last called. `slow`: it keeps a call waiting, or did so to the end. */
export type Pace = 'quick' | 'slow' | 'unknown'

/** A delivery's place, from `take` to `give`. */
export interface Place {
  readonly tenantId: string
  readonly sinceMs: number
  kind: 'anybody' | 'quick' | 'overdue'
}

/** What a process has room for. Whoever takes gives back, once. */
export class Capacity {
  readonly #held = new Map<string, number>()
  /** Places that were taken less than `quickMs` ago, as of the last look, in their order. */
  readonly #young = new Set<Place>()
  readonly #paces = new Map<string, Pace>()
  readonly #now: () => number
  readonly #heldBackUntilMs = new Map<string, number>()
  readonly #bytes = new Shares(bytesMax)
  readonly #counts = { anybody: 0, quick: 0, overdue: 0 }

  constructor(now: () => number = () => performance.now()) {
    this.#now = now
  }

  /** Deliveries held. */
  get count(): number {
    return this.#counts.anybody + this.#counts.quick + this.#counts.overdue
  }

  /** How many more deliveries fit, whoever's they are. */
  get room(): number {
    return Math.max(0, Math.min(deliveriesMax - this.#counts.anybody, heldMax - this.count))
  }

  /** How many more fit beyond those, of callbacks that are not slow. */
  get quickRoom(): number {
    this.#age()
    return Math.max(0, Math.min(quickMax - this.#counts.quick, heldMax - this.count))
  }

  /** How many more bytes fit. */
  get bytesRoom(): number {
    return bytesMax - this.#bytes.taken
  }

  /** How the tenant's callback answers, as this process knows it. */
  paceOf(tenantId: string): Pace {
    this.#age()
    return this.#paces.get(tenantId) ?? 'unknown'
  }

  /** How many more deliveries each tenant may have here that has some already. */
  tenantRooms(): Map<string, number> {
    const rooms = new Map<string, number>()
    for (const [tenantId, held] of this.#held) rooms.set(tenantId, Math.max(0, tenantDeliveriesMax - held))
    for (const [tenantId, untilMs] of this.#heldBackUntilMs) {
      if (this.#now() < untilMs) rooms.set(tenantId, 0)
      else this.#heldBackUntilMs.delete(tenantId)
    }
    return rooms
  }

  /** Leaves no room for a tenant for 2 s, until all processes know that its breaker is open. */
  holdBack(tenantId: string): void {
    this.#heldBackUntilMs.set(tenantId, this.#now() + holdBackMs)
  }

  /** Counts a delivery; the claim has seen to it that it fits. */
  take(tenantId: string): Place {
    const place: Place = { tenantId, sinceMs: this.#now(), kind: this.room > 0 ? 'anybody' : 'quick' }
    this.#counts[place.kind] += 1
    this.#young.add(place)
    this.#held.set(tenantId, (this.#held.get(tenantId) ?? 0) + 1)
    return place
  }

  /** Undoes `take`; `called`: the callback was asked. True when the tenant had all that it may have until now. */
  give(place: Place, called: boolean): boolean {
    this.#age()
    const { tenantId } = place
    this.#young.delete(place)
    if (called && this.#now() - place.sinceMs < answerMs) this.#note(tenantId, 'quick')
    this.#counts[place.kind] -= 1
    const held = this.#held.get(tenantId) ?? 0
    const left = held - 1
    if (left > 0) this.#held.set(tenantId, left)
    else this.#held.delete(tenantId)
    return held >= tenantDeliveriesMax
  }

  /** Takes room for an event's texts; false when there is none, or the tenant has its quarter. */
  takeBytes(bytes: number, tenantId: string): boolean {
    return this.#bytes.take(bytes, tenantId)
  }

  /** Undoes a `takeBytes` that gave true. */
  giveBytes(bytes: number, tenantId: string): void {
    this.#bytes.give(bytes, tenantId)
  }

  #age(): void {
    const sinceMs = this.#now() - quickMs
    for (const place of this.#young) {
      if (place.sinceMs > sinceMs) return
      this.#young.delete(place)
      this.#note(place.tenantId, 'slow')
      if (place.kind !== 'quick') continue
      place.kind = 'overdue'
      this.#counts.quick -= 1
      this.#counts.overdue += 1
    }
  }

  #note(tenantId: string, pace: Pace): void {
    this.#paces.delete(tenantId)
    this.#paces.set(tenantId, pace)
    if (this.#paces.size <= pacesMax) return
    for (const oldest of this.#paces.keys()) {
      this.#paces.delete(oldest)
      return
    }
  }
}

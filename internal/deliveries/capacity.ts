import { Shares } from '#internal/base/index.ts'

/**
 * Deliveries that one process holds at a time, from claim to answer. A callback that hangs keeps its tenant's share for its whole
 * time-out, so it takes sixteen such tenants at once, before their breakers open, to hold up the others.
 */
const deliveriesMax = 1_024
/** At 100 ms an answer that is 640 deliveries a second for one tenant in each process. */
export const laneDeliveriesMax = 64
/** Texts in memory; a tenant gets a quarter of them. */
const bytesMax = 64 * 1024 * 1024

/** Until then an opened breaker is in Postgres, or it could not be written and opens again. */
const holdBackMs = 2_000

/** What a process has room for. Whoever takes gives back, once. */
export class Capacity {
  readonly #held = new Map<string, number>()
  readonly #heldBackUntilMs = new Map<string, number>()
  readonly #bytes = new Shares(bytesMax)
  #count = 0

  /** Deliveries held. */
  get count(): number {
    return this.#count
  }

  /** How many more deliveries fit. */
  get room(): number {
    return deliveriesMax - this.#count
  }

  /** How many more bytes fit. */
  get bytesRoom(): number {
    return bytesMax - this.#bytes.taken
  }

  /** How many more deliveries each tenant may have here that has some already. */
  laneRooms(): Map<string, number> {
    const rooms = new Map<string, number>()
    for (const [tenantId, held] of this.#held) rooms.set(tenantId, Math.max(0, laneDeliveriesMax - held))
    for (const [tenantId, untilMs] of this.#heldBackUntilMs) {
      if (performance.now() < untilMs) rooms.set(tenantId, 0)
      else this.#heldBackUntilMs.delete(tenantId)
    }
    return rooms
  }

  /** Leaves no room for a tenant for 2 s, until all processes know that its breaker is open. */
  holdBack(tenantId: string): void {
    this.#heldBackUntilMs.set(tenantId, performance.now() + holdBackMs)
  }

  /** Counts a delivery; the claim has seen to it that it fits. */
  take(tenantId: string): void {
    this.#count += 1
    this.#held.set(tenantId, (this.#held.get(tenantId) ?? 0) + 1)
  }

  /** Undoes `take`. True when the tenant had all that it may have until now. */
  give(tenantId: string): boolean {
    this.#count -= 1
    const held = this.#held.get(tenantId) ?? 0
    const left = held - 1
    if (left > 0) this.#held.set(tenantId, left)
    else this.#held.delete(tenantId)
    return held >= laneDeliveriesMax
  }

  /** Takes room for an event's texts; false when there is none, or the tenant has its quarter. */
  takeBytes(bytes: number, tenantId: string): boolean {
    return this.#bytes.take(bytes, tenantId)
  }

  /** Undoes a `takeBytes` that gave true. */
  giveBytes(bytes: number, tenantId: string): void {
    this.#bytes.give(bytes, tenantId)
  }
}

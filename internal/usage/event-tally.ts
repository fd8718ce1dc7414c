/** One call's worth of events. */
export interface TallyCall {
  /** Its number in this process: the same again is not counted again. */
  readonly call: number
  /** Events of just now. */
  readonly fresh: number
  /** Hours since the Unix epoch, and the events that came in then and were not counted in time. */
  readonly late: ReadonlyMap<number, number>
}

/** An event counts in the running minute only so long after it came in. */
const freshMsMax = 5_000
/** Hours kept apart for one tenant; what is older shares the oldest one kept. */
const hoursMax = 48
const hourMs = 3_600_000

/**
 * A tenant's committed events on their way to the meter. What was sent and not confirmed is kept apart under its call's number, since
 * it may have been counted; what comes meanwhile waits for the next call. Bounded: counts by hour, no event.
 */
export class EventTally {
  #open = new Batch()
  #sent: { readonly call: number; readonly batch: Batch } | undefined

  /** Adds an event that came in at `receivedAtMs`. */
  add(receivedAtMs: number, nowMs: number): void {
    this.#open.add(receivedAtMs, nowMs)
  }

  /** Events that no call has confirmed yet. */
  get events(): number {
    return this.#open.events + (this.#sent?.batch.events ?? 0)
  }

  /** What goes into the next call: the one that was not confirmed, or all that waits. Undefined when nothing does. */
  next(nowMs: number, nextCall: () => number): TallyCall | undefined {
    if (this.events === 0) return undefined
    if (!this.#sent) {
      this.#sent = { call: nextCall(), batch: this.#open }
      this.#open = new Batch()
    }
    const { call, batch } = this.#sent
    batch.age(nowMs)
    return { call, fresh: batch.fresh, late: batch.late }
  }

  /** The call that `next` gave was counted. */
  confirm(): void {
    this.#sent = undefined
  }
}

class Batch {
  fresh = 0
  #freshSinceMs = 0
  readonly late = new Map<number, number>()
  events = 0

  add(receivedAtMs: number, nowMs: number): void {
    this.events += 1
    if (nowMs - receivedAtMs > freshMsMax) return this.#addLate(receivedAtMs, 1)
    this.age(nowMs)
    if (this.fresh === 0) this.#freshSinceMs = receivedAtMs
    this.fresh += 1
  }

  /** What has waited too long to count as of just now goes to its hour. */
  age(nowMs: number): void {
    if (this.fresh === 0 || nowMs - this.#freshSinceMs <= freshMsMax) return
    this.#addLate(this.#freshSinceMs, this.fresh)
    this.fresh = 0
  }

  #addLate(receivedAtMs: number, count: number): void {
    let hour = Math.floor(receivedAtMs / hourMs)
    if (this.late.size >= hoursMax && !this.late.has(hour)) hour = Math.min(...this.late.keys())
    this.late.set(hour, (this.late.get(hour) ?? 0) + count)
  }
}

/** Counts of a load's events. */
export interface EventCounts {
  /** Distinct events sent, regardless of retries. */
  readonly sent: number
  /** Events answered 200 or 202. */
  readonly acknowledged: number
  /** Events received by the callback. */
  readonly delivered: number
  /** Events acknowledged and not delivered. */
  readonly lost: number
  /** Deliveries beyond the first of each event. */
  readonly twice: number
}

/** Acknowledgements and deliveries of the events of one load. */
export class EventLedger {
  readonly #sent = new Set<string>()
  readonly #acknowledged = new Map<string, number>()
  readonly #arrivals = new Map<string, number>()
  readonly #firstArrivalsMs = new Map<string, number>()
  readonly #acknowledgedAtMs = new Map<string, number>()
  readonly #delays: { readonly atMs: number; readonly delayMs: number }[] = []

  /** Records that an event is sent. Safe to repeat. */
  sent(id: string): void {
    this.#sent.add(id)
  }

  /** Records the answer 200 or 202; the first one counts. */
  acknowledged(id: string, status: number): void {
    if (this.#acknowledged.has(id)) return
    this.#acknowledged.set(id, status)
    this.#acknowledgedAtMs.set(id, performance.now())
  }

  /** Records one delivery; ignores events of other ledgers. */
  arrived(id: string): void {
    if (!this.#sent.has(id)) return
    const before = this.#arrivals.get(id) ?? 0
    this.#arrivals.set(id, before + 1)
    if (before > 0) return
    const atMs = performance.now()
    this.#firstArrivalsMs.set(id, atMs)
    // A delivery can precede the acknowledgement of its event, which then counts as a delay of 0.
    this.#delays.push({ atMs, delayMs: atMs - (this.#acknowledgedAtMs.get(id) ?? atMs) })
  }

  /**
   * Returns the delays in ms from acknowledgement to delivery of events first delivered since `performance.now()` was `sinceMs`, and
   * the delays so far of undelivered events, since omitting these would hide the backlog. Sorted.
   */
  delaysSince(sinceMs: number): number[] {
    const nowMs = performance.now()
    const delivered = this.#delays.filter(({ atMs }) => atMs >= sinceMs).map(({ delayMs }) => delayMs)
    const waiting = this.missing().map((id) => nowMs - (this.#acknowledgedAtMs.get(id) ?? nowMs))
    return [...delivered, ...waiting].sort((a, b) => a - b)
  }

  /** Returns the number of acknowledged events, by 200, 202 or either. */
  acknowledgedCount(status?: 200 | 202): number {
    if (status === undefined) return this.#acknowledged.size
    return [...this.#acknowledged.values()].filter((each) => each === status).length
  }

  /** Returns the ids of acknowledged and undelivered events, by 200, 202 or either. */
  missing(status?: 200 | 202): string[] {
    return [...this.#acknowledged]
      .filter(([id, each]) => !this.#arrivals.has(id) && (status === undefined || each === status))
      .map(([id]) => id)
  }

  /** Returns the maximum number of deliveries of one event. */
  get most(): number {
    return Math.max(0, ...this.#arrivals.values())
  }

  /** Returns when the first of the repeated events was first delivered, as of `performance.now()`; Infinity if none was repeated. */
  get firstRepeatedMs(): number {
    const repeated = [...this.#arrivals].filter(([, count]) => count > 1)
    return Math.min(...repeated.map(([id]) => this.#firstArrivalsMs.get(id) ?? 0))
  }

  counts(): EventCounts {
    let arrivals = 0
    for (const count of this.#arrivals.values()) arrivals += count
    return {
      sent: this.#sent.size,
      acknowledged: this.#acknowledged.size,
      delivered: this.#arrivals.size,
      lost: this.missing().length,
      twice: arrivals - this.#arrivals.size,
    }
  }
}

/** Prints the result line of a fault, as every test of this folder does, with further observations in `note`. */
export function printCounts(fault: string, counts: EventCounts, note = ''): void {
  const { sent, acknowledged, delivered, lost, twice } = counts
  const line = `sent ${sent}, acknowledged ${acknowledged}, delivered ${delivered}, lost ${lost}, delivered twice ${twice}`
  console.log(`${fault}: ${line}${note === '' ? '' : `; ${note}`}`)
}

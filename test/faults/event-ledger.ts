/** What became of the events of one load. */
export interface EventCounts {
  /** Events that were sent, each as often as it took. */
  readonly sent: number
  /** Of these, answered 200 or 202. */
  readonly acknowledged: number
  /** Events that came to the callback. */
  readonly delivered: number
  /** Acknowledged and not delivered. */
  readonly lost: number
  /** Arrivals beyond an event's first. */
  readonly twice: number
}

/** An event's ids at both ends: what its sender was answered, and how often it came to the callback. */
export class EventLedger {
  readonly #sent = new Set<string>()
  readonly #acknowledged = new Map<string, number>()
  readonly #arrivals = new Map<string, number>()
  readonly #acknowledgedAtMs = new Map<string, number>()
  readonly #delays: { readonly atMs: number; readonly delayMs: number }[] = []

  /** Notes that an event goes out; harmless to repeat. */
  sent(id: string): void {
    this.#sent.add(id)
  }

  /** Notes that an event was answered 200 or 202; the first answer counts. */
  acknowledged(id: string, status: number): void {
    if (this.#acknowledged.has(id)) return
    this.#acknowledged.set(id, status)
    this.#acknowledgedAtMs.set(id, performance.now())
  }

  /** Notes one arrival at the callback; of an event of another ledger nothing is kept. */
  arrived(id: string): void {
    if (!this.#sent.has(id)) return
    const before = this.#arrivals.get(id) ?? 0
    this.#arrivals.set(id, before + 1)
    if (before > 0) return
    const atMs = performance.now()
    // The callback may have it before its sender hears of it.
    this.#delays.push({ atMs, delayMs: atMs - (this.#acknowledgedAtMs.get(id) ?? atMs) })
  }

  /**
   * From acknowledged to delivered, ms, of events that were first delivered since a time of `performance.now()`; and of each that
   * is still to come, from acknowledged until now: those that wait must not be left out just because they wait. Sorted.
   */
  delaysSince(sinceMs: number): number[] {
    const nowMs = performance.now()
    const delivered = this.#delays.filter(({ atMs }) => atMs >= sinceMs).map(({ delayMs }) => delayMs)
    const waiting = this.missing().map((id) => nowMs - (this.#acknowledgedAtMs.get(id) ?? nowMs))
    return [...delivered, ...waiting].sort((a, b) => a - b)
  }

  /** How many were acknowledged so far, by 200, 202 or either. */
  acknowledgedCount(status?: 200 | 202): number {
    if (status === undefined) return this.#acknowledged.size
    return [...this.#acknowledged.values()].filter((each) => each === status).length
  }

  /** Events that were acknowledged and have not come to the callback, by 200, 202 or either. */
  missing(status?: 200 | 202): string[] {
    return [...this.#acknowledged]
      .filter(([id, each]) => !this.#arrivals.has(id) && (status === undefined || each === status))
      .map(([id]) => id)
  }

  /** How often the event came that came most often. */
  get most(): number {
    return Math.max(0, ...this.#arrivals.values())
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

/** Prints a fault's line, which every test of this folder has. `note` is what else was seen. */
export function printCounts(fault: string, counts: EventCounts, note = ''): void {
  const { sent, acknowledged, delivered, lost, twice } = counts
  const line = `sent ${sent}, acknowledged ${acknowledged}, delivered ${delivered}, lost ${lost}, delivered twice ${twice}`
  console.log(`${fault}: ${line}${note === '' ? '' : `; ${note}`}`)
}

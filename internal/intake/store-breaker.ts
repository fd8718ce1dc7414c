import type { Sleep } from '#internal/process/index.ts'

/** Dependencies of a breaker. */
export interface StoreBreakerOptions {
  /** Asks the store once, within its own time-outs, and returns whether it answered. Must not reject. */
  probe(): Promise<boolean>
  /** Time from the start of one probe to the start of the next, ms; a probe that takes longer is followed by the next at once. */
  readonly probeEveryMs: number
  /** Monotonic time, ms. */
  now(): number
  readonly sleep: Sleep
  /** Called once per change. Must not throw. */
  onChanged(isOpen: boolean): void
}

/** Delay of the first probe after an error, ms. Most such errors are one dropped connection, and the pool's next one works. */
const firstProbeAfterErrorMs = 100

/**
 * Circuit breaker before the event store. Closed: events go to the store. Open: only probes do, one at a time, each second;
 * the first one that succeeds closes it. After an error the first probe comes sooner, after 100 ms.
 */
export class StoreBreaker {
  readonly #options: StoreBreakerOptions
  #opening: AbortController | undefined

  constructor(options: StoreBreakerOptions) {
    this.#options = options
  }

  get isOpen(): boolean {
    return this.#opening !== undefined
  }

  /** Opens it after the store failed with an error or was late. Repeating it is harmless. */
  open(cause: 'error' | 'late'): void {
    if (this.#opening) return
    this.#opening = new AbortController()
    this.#options.onChanged(true)
    const { probeEveryMs } = this.#options
    const firstMs = cause === 'late' ? probeEveryMs : Math.min(firstProbeAfterErrorMs, probeEveryMs)
    void this.#probeUntilClosed(firstMs, this.#opening.signal)
  }

  /** Ends the probes for good; the state stays. */
  stop(): void {
    this.#opening?.abort()
  }

  async #probeUntilClosed(firstMs: number, signal: AbortSignal): Promise<void> {
    const { probe, probeEveryMs, now, sleep, onChanged } = this.#options
    let waitMs = firstMs
    while (!signal.aborted) {
      await sleep(waitMs, signal)
      if (signal.aborted) return
      const startedAtMs = now()
      if (await probe()) {
        this.#opening = undefined
        onChanged(false)
        return
      }
      waitMs = Math.max(0, startedAtMs + probeEveryMs - now())
    }
  }
}

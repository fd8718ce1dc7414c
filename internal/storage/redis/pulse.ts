import { Bell } from '#internal/base/index.ts'

/** A loop's wait that a ring ends early and a stop ends for good. */
export class Pulse {
  readonly #news = new Bell()
  readonly #end = new Bell()
  #stopped = false

  get isStopped(): boolean {
    return this.#stopped
  }

  /** Ends the present wait, or the next one, once its least time is over. */
  ring(): void {
    this.#news.ring()
  }

  /** Ends every wait from now on. */
  stop(): void {
    this.#stopped = true
    this.#end.ring()
    this.#news.ring()
  }

  /** Waits until a ring, at least `leastMs` and at most `mostMs`. */
  async wait(leastMs: number, mostMs: number): Promise<void> {
    if (!this.#stopped) await this.#end.sleep(leastMs)
    if (!this.#stopped) await this.#news.sleep(mostMs - leastMs)
  }
}

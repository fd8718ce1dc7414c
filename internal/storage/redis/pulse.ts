/** A loop's wait that a ring ends early and a stop ends for good. */
export class Pulse {
  #rung = false
  #stopped = false
  #wake: (() => void) | undefined

  get isStopped(): boolean {
    return this.#stopped
  }

  /** Ends the present wait, or the next one at once. */
  ring(): void {
    this.#rung = true
    this.#wake?.()
  }

  /** Ends every wait from now on. */
  stop(): void {
    this.#stopped = true
    this.ring()
  }

  /** Waits until a ring, at least `leastMs` and at most `mostMs`. */
  async wait(leastMs: number, mostMs: number): Promise<void> {
    await this.#sleep(leastMs, () => this.#stopped)
    await this.#sleep(mostMs - leastMs, () => this.#rung || this.#stopped)
    this.#rung = false
  }

  async #sleep(ms: number, isOver: () => boolean): Promise<void> {
    if (isOver()) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms)
      this.#wake = () => {
        if (!isOver()) return
        clearTimeout(timer)
        resolve()
      }
    })
    this.#wake = undefined
  }
}

/** A bounded number of places. Takers beyond it wait in the order in which they came. */
export class Slots {
  readonly #slotsMax: number
  readonly #waitersMax: number
  /** In order of arrival. */
  readonly #waiters = new Set<() => void>()
  #taken = 0

  /** @param waitersMax a taker beyond this many waiting ones is turned away at once */
  constructor(slotsMax: number, waitersMax: number) {
    this.#slotsMax = slotsMax
    this.#waitersMax = waitersMax
  }

  get taken(): number {
    return this.#taken
  }

  get waiting(): number {
    return this.#waiters.size
  }

  /**
   * Takes a slot and gives the function that releases it, which may be called more than once. Undefined when the signal fires
   * first or too many wait already. Never rejects.
   */
  async take(signal: AbortSignal): Promise<(() => void) | undefined> {
    if (signal.aborted) return undefined
    if (this.#taken < this.#slotsMax) {
      this.#taken += 1
      return this.#releaseOnce()
    }
    if (this.#waiters.size >= this.#waitersMax) return undefined
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const passOn = () => resolve(true)
    const giveUp = () => {
      // Not waiting any more means that the slot was passed on already.
      if (this.#waiters.delete(passOn)) resolve(false)
    }
    this.#waiters.add(passOn)
    signal.addEventListener('abort', giveUp, { once: true })
    const isTaken = await promise
    signal.removeEventListener('abort', giveUp)
    return isTaken ? this.#releaseOnce() : undefined
  }

  #releaseOnce(): () => void {
    let isReleased = false
    return () => {
      if (isReleased) return
      isReleased = true
      const [next] = this.#waiters
      if (next === undefined) {
        this.#taken -= 1
        return
      }
      this.#waiters.delete(next)
      next()
    }
  }
}

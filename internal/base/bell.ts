/** A sleep that a ring ends, for one sleeper. A ring while nobody sleeps ends the next sleep at once. */
export class Bell {
  #rung = false
  #wake: (() => void) | undefined

  /** Ends the present sleep, or else the next one. Repeating it before then is harmless. */
  readonly ring = (): void => {
    this.#rung = true
    this.#wake?.()
  }

  /** Settles after `ms` or at a ring, whichever is first; never rejects and leaves no timer. */
  async sleep(ms: number): Promise<void> {
    if (!this.#rung) {
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, ms)
        this.#wake = () => {
          clearTimeout(timer)
          resolve()
        }
      })
    }
    this.#rung = false
    this.#wake = undefined
  }
}

interface Waiting {
  readonly dueAtMs: number
  onLate: (() => void) | undefined
}

/** How late a deadline may be noticed. */
const sweepMs = 50

/**
 * Deadlines of one length for very many calls: one timer serves all of them, since calls that began later are due later.
 * A deadline is noticed at most 50 ms after its time.
 */
export class Deadlines {
  readonly #afterMs: number
  #queue: Waiting[] = []
  #timer: Timer | undefined

  constructor(afterMs: number) {
    this.#afterMs = afterMs
  }

  /**
   * Gives what `pending` gives or, when that takes too long, what `late` gives or throws. `pending` itself goes on.
   * @param ended called when all is settled, also after the deadline
   * @param recover makes something else of an error, under the same deadline
   */
  guard<T>(
    pending: Promise<T>,
    late: () => T,
    ended?: () => void,
    recover?: (error: unknown) => Promise<T>,
  ): Promise<T> {
    return new Promise<T>((resolve, reject) => {
      const waiting: Waiting = {
        dueAtMs: performance.now() + this.#afterMs,
        onLate: () => {
          try {
            resolve(late())
          } catch (error) {
            reject(error)
          }
        },
      }
      this.#queue.push(waiting)
      this.#timer ??= setTimeout(this.#sweep, sweepMs)
      const give = (value: T) => {
        waiting.onLate = undefined
        ended?.()
        resolve(value)
      }
      const fail = (error: unknown) => {
        waiting.onLate = undefined
        ended?.()
        reject(error)
      }
      pending.then(give, recover ? (error: unknown) => recover(error).then(give, fail) : fail)
    })
  }

  /** Tells whoever is due, and drops the calls that have ended from the front on. */
  readonly #sweep = (): void => {
    const nowMs = performance.now()
    let ended = 0
    for (const waiting of this.#queue) {
      if (waiting.onLate !== undefined && waiting.dueAtMs > nowMs) break
      waiting.onLate?.()
      ended += 1
    }
    this.#queue.splice(0, ended)
    this.#timer = this.#queue.length > 0 ? setTimeout(this.#sweep, sweepMs) : undefined
  }
}

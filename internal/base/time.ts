/** Where time comes from. Passed in, so that tests can move it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
}

/** The machine's own clock. */
export const systemClock: Clock = { now: () => Date.now() }

/** Bounds of a growing wait. */
export interface BackoffBounds {
  readonly firstMs: number
  readonly maxMs: number
}

/**
 * The wait before attempt `attempt` (0 is the first retry): doubling from `firstMs` up to `maxMs`, then spread
 * evenly over its upper half so that many waiters do not come back together.
 * @param random a number in [0, 1)
 */
export function backoffMs(attempt: number, bounds: BackoffBounds, random: number): number {
  const full = Math.min(bounds.maxMs, bounds.firstMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}

/**
 * Gives what `work` gives or throws or, when that takes longer than `msMax`, what `late` gives or throws. `work` itself goes
 * on, and what it throws later is nobody's. For calls that are many and of one length `Deadlines` is cheaper.
 */
export function within<T, Late = T>(msMax: number, work: Promise<T>, late: () => Late): Promise<T | Late> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      try {
        resolve(late())
      } catch (error) {
        reject(error)
      }
    }, msMax)
    work.then(
      (value) => {
        clearTimeout(timer)
        resolve(value)
      },
      (error: unknown) => {
        clearTimeout(timer)
        reject(error)
      },
    )
  })
}

/** A call under way, in a list of all in the order they began, which is the order they are due in. */
interface Waiting {
  readonly dueAtMs: number
  readonly onLate: () => void
  before: Waiting | undefined
  after: Waiting | undefined
}

/** How late a deadline may be noticed. */
const sweepMs = 50

/**
 * Deadlines of one length for very many calls: one timer serves all of them, since calls that began later are due later.
 * A deadline is noticed at most 50 ms after its time.
 */
export class Deadlines {
  readonly #afterMs: number
  #first: Waiting | undefined
  #last: Waiting | undefined
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
      const waiting = this.#enter(() => {
        try {
          resolve(late())
        } catch (error) {
          reject(error)
        }
      })
      const give = (value: T) => {
        this.#leave(waiting)
        ended?.()
        resolve(value)
      }
      const fail = (error: unknown) => {
        this.#leave(waiting)
        ended?.()
        reject(error)
      }
      // oxlint-disable-next-line promise/no-promise-in-callback -- a chain would cost each call one promise more
      pending.then(give, recover ? (error: unknown) => recover(error).then(give, fail) : fail)
    })
  }

  #enter(onLate: () => void): Waiting {
    const dueAtMs = performance.now() + this.#afterMs
    const waiting: Waiting = { dueAtMs, onLate, before: this.#last, after: undefined }
    if (this.#last) this.#last.after = waiting
    else this.#first = waiting
    this.#last = waiting
    this.#timer ??= setTimeout(this.#sweep, sweepMs)
    return waiting
  }

  /** Takes a call out of the list at once, so that nothing holds on to it. One that is out already is left alone. */
  #leave(waiting: Waiting): void {
    const { before, after } = waiting
    if (before) before.after = after
    else if (this.#first === waiting) this.#first = after
    if (after) after.before = before
    else if (this.#last === waiting) this.#last = before
    waiting.before = undefined
    waiting.after = undefined
  }

  readonly #sweep = (): void => {
    const nowMs = performance.now()
    for (let due = this.#first; due && due.dueAtMs <= nowMs; due = this.#first) {
      this.#leave(due)
      due.onLate()
    }
    this.#timer = this.#first ? setTimeout(this.#sweep, sweepMs) : undefined
  }
}

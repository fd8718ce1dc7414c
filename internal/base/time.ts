/** Time source, passed as an argument so that tests control it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
}

/** System clock. */
export const systemClock: Clock = { now: () => Date.now() }

/** Bounds of exponential backoff. */
export interface BackoffBounds {
  readonly firstMs: number
  readonly maxMs: number
}

/**
 * Returns the wait before retry `attempt` (0 is the first): doubles from `firstMs` up to `maxMs`, with jitter
 * over its upper half, so that many callers do not retry together.
 * @param random a number in [0, 1)
 */
export function backoffMs(attempt: number, bounds: BackoffBounds, random: number): number {
  const full = Math.min(bounds.maxMs, bounds.firstMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}

/**
 * Settles like `work` or, after `msMax`, with the result of `late`. `work` itself continues
 * and its later error is ignored. For many calls of equal length, `Deadlines` is cheaper.
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

/** Pending call in a list ordered by start, which is also the order of deadlines. */
interface Waiting {
  readonly dueAtMs: number
  readonly onLate: () => void
  before: Waiting | undefined
  after: Waiting | undefined
}

/** Maximum delay in noticing a deadline. */
const sweepMs = 50

/**
 * Deadlines of equal length for many calls, served by one timer, since later calls are due later.
 * A deadline is noticed at most 50 ms late.
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
   * Settles like `pending` or, after the deadline, with the result of `late`. `pending` itself continues.
   * @param ended called when `pending` has settled, also after the deadline
   * @param recover maps an error to another promise, under the same deadline
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

/** Names of timestamps: sent as RFC 3339 under the name without `Ms`. Durations keep theirs. */
const timestampName = /^(at|since|until|from|to|hour|.*(At|Since|Until))Ms$/

/** Converts a value to the contract's JSON: timestamps as text, `undefined` left out. Not for payloads, whose text must not change. */
export function toWire(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toWire)
  if (value instanceof Set) return [...value].map(toWire)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(Object.entries(value).flatMap(([name, inner]) => memberOf(name, inner)))
}

function memberOf(name: string, value: unknown): [string, unknown][] {
  if (value === undefined) return []
  if (!timestampName.test(name)) return [[name, toWire(value)]]
  return [[name.slice(0, -'Ms'.length), typeof value === 'number' ? new Date(value).toISOString() : null]]
}

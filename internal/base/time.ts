/** Time source, an argument so that tests can control it. */
export interface Clock {
  /** Milliseconds since the Unix epoch. */
  now(): number
}

/** System clock. */
export const systemClock: Clock = { now: () => Date.now() }

/** Pattern of an RFC 3339 time without leap seconds. Does not check whether the day exists in the month. */
export const timestampPattern =
  '^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]([.][0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$'
const timestampForm = new RegExp(timestampPattern)

/** 9999-12-31T23:59:59.999Z, the last time that ISO 8601 writes with a four-digit year. */
export const timestampMsMax = 253_402_300_799_999

/**
 * Parses an RFC 3339 time without leap seconds into milliseconds since the epoch. Returns undefined for any other text, also for a day that
 * its month does not have, which `Date.parse` takes for one of the next month.
 */
export function parseTimestamp(text: string): number | undefined {
  if (!timestampForm.test(text)) return undefined
  const [year = 0, month = 0, day] = text.slice(0, 10).split('-').map(Number)
  const date = new Date(0)
  date.setUTCFullYear(year, month - 1, day)
  return date.getUTCDate() === day ? Date.parse(text) : undefined
}

/** Minimum and maximum wait of exponential backoff. */
export interface BackoffBounds {
  readonly firstMs: number
  readonly maxMs: number
}

/**
 * Returns the wait before retry `attempt` (0 is the first retry). The maximum wait doubles from `firstMs` up to `maxMs`; jitter varies the
 * wait in the upper half, so that many callers do not retry together.
 * @param random a number in [0, 1)
 */
export function backoffMs(attempt: number, bounds: BackoffBounds, random: number): number {
  const full = Math.min(bounds.maxMs, bounds.firstMs * 2 ** Math.min(attempt, 30))
  return Math.round(full / 2 + (full / 2) * random)
}

/**
 * Settles like `work` or, after `msMax`, with the result of `late`. `work` itself continues, and its later error is ignored. For many calls
 * with the same time limit, `Deadlines` is cheaper.
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

/** Call with a deadline. The list of calls is ordered by their start, and therefore also by their deadline. */
interface Waiting {
  readonly dueAtMs: number
  readonly onLate: () => void
  before: Waiting | undefined
  after: Waiting | undefined
}

/** Maximum delay before a passed deadline is noticed. */
const sweepMs = 50

/** Deadlines of calls with the same time limit. The first call expires first, so one timer serves all, at most 50 ms late. */
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
   * @param ended called when `pending` has settled, even after the deadline
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

  /** Removes a call immediately, so that the list does not retain it. Safe to repeat. */
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

/** Names of fields with a timestamp. It is sent as RFC 3339 text under the name without `Ms`. Fields with a duration stay unchanged. */
const timestampName = /^(from|to|hour|searchedTo|.*At)Ms$/

/** Converts to the JSON of the contract: timestamps become text, `undefined` is omitted. Not for payloads, whose text must not change. */
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

/** Start of the UTC month that contains a time, in ms since the epoch. */
export function monthStartMs(nowMs: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)
}

/** End of the UTC month that contains a time, in ms since the epoch. */
export function monthEndMs(nowMs: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
}

import { type Sleep, sleep } from '#internal/process/index.ts'

/** Clock and timers; replaced in tests only. */
export interface Timing {
  /** Monotonic, because a correction of the wall clock must not end a lease or a wait. */
  now(): number
  readonly sleep: Sleep
  random(): number
}

export const systemTiming: Timing = { now: () => performance.now(), sleep, random: Math.random }

/** Rejects when the signal fires, for operations that do not accept a signal. */
export function untilAborted<T>(pending: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const abort = () => reject(new Error('aborted'))
    if (signal.aborted) abort()
    signal.addEventListener('abort', abort, { once: true })
    pending.then(resolve, reject).finally(() => signal.removeEventListener('abort', abort))
  })
}

/** Returns a signal that fires with `signal`, after `msMax` or at `stop`. `done` removes its timer and its listener. */
export function boundedSignal(signal: AbortSignal | undefined, msMax: number) {
  const ended = new AbortController()
  const stop = () => ended.abort('aborted by the caller')
  const timer = setTimeout(() => ended.abort(`timed out after ${Math.round(msMax)} ms`), msMax)
  signal?.addEventListener('abort', stop, { once: true })
  if (signal?.aborted) stop()
  const done = () => {
    clearTimeout(timer)
    signal?.removeEventListener('abort', stop)
  }
  return { signal: ended.signal, stop, done }
}

export function whyAborted({ reason }: AbortSignal): string {
  return typeof reason === 'string' ? reason : 'aborted by the caller'
}

/** Counting semaphore with a bounded first-in, first-out queue of waiters. */
export class Slots {
  readonly #slotsMax: number
  readonly #waitersMax: number
  readonly #waiters = new Set<() => void>()
  #taken = 0

  /** @param waitersMax maximum waiting callers; `take` refuses further ones immediately */
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

  /** Returns a function that releases the slot, once only; undefined if the signal fires first or the queue is full. Never rejects. */
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
      // If the waiter is no longer in the queue, it has already received a slot.
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

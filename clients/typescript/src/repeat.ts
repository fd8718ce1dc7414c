import type { Failed, Reply } from './service.ts'

const firstPauseMs = 50
const pauseMsMax = 1000

/** Bounds of the retries of a call. Times are values of `performance.now()`. */
export interface RepeatBounds {
  /** No retry starts at or after this time. */
  readonly untilMs: number
  /** Milliseconds after the first failure at which retries stop. */
  readonly failingMs?: number
  readonly signal?: AbortSignal | undefined
  /** Called before the pause that precedes a retry. */
  onRepeat(failure: Failed, pauseMs: number): void
}

/** Retries a call without a usable answer, until it is answered, its bounds are reached, or the signal aborts. Returns the last reply. */
export async function repeat<T>(bounds: RepeatBounds, call: () => Promise<Reply<T>>): Promise<Reply<T>> {
  let { untilMs } = bounds
  for (let failures = 0; ; failures += 1) {
    const reply = await call()
    if (reply.kind !== 'failed') return reply
    const nowMs = performance.now()
    if (failures === 0) untilMs = Math.min(untilMs, nowMs + (bounds.failingMs ?? Number.POSITIVE_INFINITY))
    const pauseMs = decidePauseMs(failures, reply.retryAfterMs, Math.random())
    // The negation also ends the retries for a bound that is NaN.
    if (!(nowMs + pauseMs < untilMs)) return reply
    bounds.onRepeat(reply, pauseMs)
    await sleep(pauseMs, bounds.signal)
    if (bounds.signal?.aborted) return { kind: 'aborted' }
  }
}

/**
 * Returns the pause before the next retry: 50 ms, doubled up to 1 s, with ±50 % jitter, in addition to the time of `Retry-After`, so that
 * callers with the same `Retry-After` do not retry simultaneously.
 * @param random from 0 to 1
 */
export function decidePauseMs(failures: number, retryAfterMs: number | undefined, random: number): number {
  const pauseMs = Math.min(firstPauseMs * 2 ** failures, pauseMsMax)
  return (retryAfterMs ?? 0) + pauseMs * (0.5 + random)
}

/** Resolves after a time, or earlier if the signal aborts. */
export function sleep(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve) => {
    if (signal?.aborted) return resolve()
    const end = () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', end)
      resolve()
    }
    const timer = setTimeout(end, ms)
    signal?.addEventListener('abort', end)
  })
}

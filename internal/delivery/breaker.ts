import { setNewest } from '#internal/base/index.ts'
import { rememberedMax } from './capacity.ts'

/** Time for which an open circuit breaker blocks all deliveries of its tenant. */
export const breakerOpenMs = 30_000

/** Attempts of a callback within one time slice. */
interface Slice {
  index: number
  attempts: number
  failures: number
}

const sliceMs = 30_000
const slices = 10
const attemptsMin = 10
const failureShare = 0.7

/**
 * Counts attempts and failures of each destination over the last 5 minutes in this process. Keeps the counts of at most 10 000
 * destinations and drops those of the one that was added first.
 */
export class CallbackHealth {
  readonly #callbacks = new Map<
    string,
    {
      readonly slices: readonly Slice[]
      openedAtMs: number | undefined
    }
  >()

  /**
   * Counts an attempt. Returns true if the circuit breaker must open: this attempt failed, and in the last 5 minutes at least 70 % of at
   * least 10 attempts failed.
   */
  record(queueId: string, ok: boolean, nowMs: number): boolean {
    const all = this.#slicesOf(queueId)
    const index = Math.floor(nowMs / sliceMs)
    const slice = all[index % slices]
    if (slice === undefined) return false
    if (slice.index !== index) Object.assign(slice, { index, attempts: 0, failures: 0 })
    slice.attempts += 1
    if (ok) return false
    slice.failures += 1
    return isFailing(all, index)
  }

  /** Returns whether at least 70 % of the attempts of the last 5 minutes failed, however few there were. */
  isMostlyFailing(queueId: string, nowMs: number): boolean {
    const all = this.#callbacks.get(queueId)?.slices
    return all !== undefined && isFailing(all, Math.floor(nowMs / sliceMs), 1)
  }

  /** Records that this process opened the tenant's circuit breaker. */
  opened(queueId: string, nowMs: number): void {
    const known = this.#callbacks.get(queueId)
    if (known) known.openedAtMs = nowMs
  }

  /**
   * Records that a delivery that is no probe was claimed. If the open time of the tenant's circuit breaker has passed, such a claim means
   * that another process closed the breaker; earlier counts are then dropped.
   */
  seenClosed(queueId: string, nowMs: number): void {
    const openedAtMs = this.#callbacks.get(queueId)?.openedAtMs
    if (openedAtMs !== undefined && nowMs - openedAtMs >= breakerOpenMs) this.reset(queueId)
  }

  /** Drops the counts of a callback that has recovered. */
  reset(queueId: string): void {
    this.#callbacks.delete(queueId)
  }

  #slicesOf(queueId: string): readonly Slice[] {
    let known = this.#callbacks.get(queueId)
    if (known === undefined) {
      known = {
        slices: Array.from({ length: slices }, () => ({ index: -1, attempts: 0, failures: 0 })),
        openedAtMs: undefined,
      }
      setNewest(this.#callbacks, queueId, known, rememberedMax)
    }
    return known.slices
  }
}

function isFailing(all: readonly Slice[], index: number, leastAttempts = attemptsMin): boolean {
  let attempts = 0
  let failures = 0
  for (const slice of all) {
    if (slice.index <= index - slices) continue
    attempts += slice.attempts
    failures += slice.failures
  }
  return attempts >= leastAttempts && failures >= attempts * failureShare
}

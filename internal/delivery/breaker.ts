/** Time for which an opened breaker lets nothing through. */
export const breakerOpenMs = 30_000

interface Counted {
  readonly slices: readonly Slice[]
  openedAtMs: number | undefined
}

/** Attempts of a callback in one slice of time. */
interface Slice {
  index: number
  attempts: number
  failures: number
}

const sliceMs = 30_000
const slices = 10
const attemptsMin = 10
const failureShare = 0.7
const callbacksMax = 10_000

/**
 * Counts how each tenant's callback does in the last 5 minutes, as this process sees it. Bounded: of more than 10 000 tenants the
 * one known longest is forgotten, which costs its count and nothing else.
 */
export class CallbackHealth {
  readonly #callbacks = new Map<string, Counted>()

  /** Counts an attempt. True when it failed and at least 70 % of at least 10 have failed: then the breaker is to open. */
  record(tenantId: string, ok: boolean, nowMs: number): boolean {
    const all = this.#slicesOf(tenantId)
    const index = Math.floor(nowMs / sliceMs)
    const slice = all[index % slices]
    if (slice === undefined) return false
    if (slice.index !== index) Object.assign(slice, { index, attempts: 0, failures: 0 })
    slice.attempts += 1
    if (ok) return false
    slice.failures += 1
    return isFailing(all, index)
  }

  /** Notes that the breaker was opened here. */
  opened(tenantId: string, nowMs: number): void {
    const known = this.#callbacks.get(tenantId)
    if (known) known.openedAtMs = nowMs
  }

  /**
   * Notes that a delivery of the tenant was claimed as usual. After our own opening has run out, that means that another process
   * found the callback well, so that what was counted before says nothing any more.
   */
  seenClosed(tenantId: string, nowMs: number): void {
    const openedAtMs = this.#callbacks.get(tenantId)?.openedAtMs
    if (openedAtMs !== undefined && nowMs - openedAtMs >= breakerOpenMs) this.reset(tenantId)
  }

  /** Forgets what was counted, once the callback is well again. */
  reset(tenantId: string): void {
    this.#callbacks.delete(tenantId)
  }

  #slicesOf(tenantId: string): readonly Slice[] {
    let known = this.#callbacks.get(tenantId)
    if (known === undefined) {
      if (this.#callbacks.size >= callbacksMax) this.#forgetOldest()
      known = {
        slices: Array.from({ length: slices }, () => ({ index: -1, attempts: 0, failures: 0 })),
        openedAtMs: undefined,
      }
      this.#callbacks.set(tenantId, known)
    }
    return known.slices
  }

  #forgetOldest(): void {
    for (const oldest of this.#callbacks.keys()) {
      this.#callbacks.delete(oldest)
      return
    }
  }
}

function isFailing(all: readonly Slice[], index: number): boolean {
  let attempts = 0
  let failures = 0
  for (const slice of all) {
    if (slice.index <= index - slices) continue
    attempts += slice.attempts
    failures += slice.failures
  }
  return attempts >= attemptsMin && failures >= attempts * failureShare
}

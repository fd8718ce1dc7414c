/** Returns whether a line of this cause is written; counts it if so. */
export type LineLimit = (cause: string) => boolean

/** Options of `createLineLimit`. */
export interface LineLimitOptions {
  /** Maximum lines per cause and second. */
  readonly perSecondMax: number
  readonly clock: { now(): number }
  /** Called for each line that is left out. Must not throw. */
  onSuppressed(cause: string): void
}

/**
 * Makes a limit of log lines per cause and second, in memory and for this process. Causes must come from a closed set: the counts of
 * one second are kept for each.
 */
export function createLineLimit({ perSecondMax, clock, onSuppressed }: LineLimitOptions): LineLimit {
  const written = new Map<string, number>()
  let second = 0
  return (cause) => {
    const now = Math.floor(clock.now() / 1000)
    if (now !== second) {
      second = now
      written.clear()
    }
    const count = written.get(cause) ?? 0
    if (count >= perSecondMax) {
      onSuppressed(cause)
      return false
    }
    written.set(cause, count + 1)
    return true
  }
}

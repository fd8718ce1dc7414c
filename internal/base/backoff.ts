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

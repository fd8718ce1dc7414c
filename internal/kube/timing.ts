import { type Sleep, sleep } from '#internal/process/index.ts'

/** Where a loop gets its time and its chance from; replaced in tests. */
export interface Timing {
  /** Milliseconds since any moment, never going back: a corrected wall clock must not end a lease or a wait. */
  now(): number
  readonly sleep: Sleep
  /** A number in [0, 1). */
  random(): number
}

/** The machine's own. */
export const systemTiming: Timing = { now: () => performance.now(), sleep, random: Math.random }

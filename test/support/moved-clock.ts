/** Clock that a test moves. */
export interface MovedClock {
  /** Milliseconds since its creation plus one million, so that a wrong 0 is noticed. */
  now(): number
  sleep(ms: number, signal: AbortSignal): Promise<void>
  random(): number
  /** Pending sleeps, shortest first. */
  sleeping(): number[]
  /** Advances the time; wakes each sleeper at its time and lets it run before the next. */
  advance(ms: number): Promise<void>
  /** Runs all pending microtasks. */
  settle(): Promise<void>
}

interface Sleeper {
  readonly dueAtMs: number
  readonly wake: () => void
}

const turnsToSettle = 20

/** Creates a clock. @param random result of random numbers; default 0 */
export function createMovedClock(random = 0): MovedClock {
  let nowMs = 1_000_000
  const sleepers = new Set<Sleeper>()
  const settle = async () => {
    for (let turn = 0; turn < turnsToSettle; turn += 1) await new Promise((resolve) => setImmediate(resolve))
  }
  const first = () => [...sleepers].sort((one, other) => one.dueAtMs - other.dueAtMs)[0]
  return {
    now: () => nowMs,
    random: () => random,
    sleep(ms, signal) {
      if (signal.aborted) return Promise.resolve()
      return new Promise((resolve) => {
        const wake = () => {
          sleepers.delete(sleeper)
          signal.removeEventListener('abort', wake)
          resolve()
        }
        const sleeper: Sleeper = { dueAtMs: nowMs + Math.max(0, ms), wake }
        sleepers.add(sleeper)
        signal.addEventListener('abort', wake, { once: true })
      })
    },
    sleeping: () => [...sleepers].map((sleeper) => sleeper.dueAtMs - nowMs).sort((a, b) => a - b),
    settle,
    async advance(ms) {
      const targetMs = nowMs + ms
      await settle()
      for (let next = first(); next && next.dueAtMs <= targetMs; next = first()) {
        nowMs = Math.max(nowMs, next.dueAtMs)
        next.wake()
        await settle()
      }
      nowMs = targetMs
    },
  }
}

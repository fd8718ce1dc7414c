/** Time that stands still until a test moves it. */
export interface MovedClock {
  /** Milliseconds since the clock was made, plus one million, so that 0 is never by chance right. */
  now(): number
  sleep(ms: number, signal: AbortSignal): Promise<void>
  random(): number
  /** The sleeps under way, shortest first. */
  sleeping(): number[]
  /** Moves time on, waking each sleeper at its moment and letting it act before the next. */
  advance(ms: number): Promise<void>
  /** Lets everything act that waits for nothing but its turn. */
  settle(): Promise<void>
}

interface Sleeper {
  readonly dueAtMs: number
  readonly wake: () => void
}

const turnsToSettle = 20

/** Makes a clock. @param random what chance gives; default 0 */
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

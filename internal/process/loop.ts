import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health, Heartbeat } from '#internal/telemetry/index.ts'

/** What a loop is made of. */
export interface LoopOptions {
  readonly name: string
  /** Pause between the end of one turn and the start of the next. */
  readonly intervalMs: number
  /** After this long the turn's signal fires; the turn is waited for all the same, so that two never overlap. */
  readonly turnMsMax: number
  /** One turn's work, a bounded amount of it. What it throws goes to `onError`. */
  readonly runOnce: (signal: AbortSignal) => Promise<void>
  /** Hears of a failed turn, with the number of failures in a row, 1 for the first. Must not throw. */
  readonly onError: (error: unknown, failures: number) => void
  /** Share of the interval by which it varies, 0 to 1; default 0.1. */
  readonly jitter?: number
  /** Pauses after failed turns; default 200 ms to 10 s. */
  readonly backoff?: BackoffBounds
  /** Where the loop shows that it turns. */
  readonly health?: Health
  /** Beats only after a successful turn, so that lasting failures fail liveness. Default false. */
  readonly failuresStopHeartbeat?: boolean
  /** Replaced in tests only. */
  readonly sleep?: Sleep
  readonly random?: () => number
}

/** A loop that turns until it is stopped. */
export interface SupervisedLoop {
  /** Begins the next turn now, or right after the one under way. A pause after a failure is not cut short. */
  wake(): void
  /** Runs one turn, after the one under way, and tells how it ended. @throws what the turn throws, and once stopped */
  runOnce(): Promise<void>
  /** Tells the turn under way to end, waits for it, and begins no other. Repeating it is harmless; never rejects. */
  stop(): Promise<void>
}

const defaultBackoff: BackoffBounds = { firstMs: 200, maxMs: 10_000 }
/** Added to the longest regular silence before a loop counts as stuck. */
const silenceMarginMs = 15_000

/** Starts a loop; its first turn begins at once. A turn that fails is followed by another, later and later. */
export function superviseLoop(options: LoopOptions): SupervisedLoop {
  return new Loop(options)
}

class Loop implements SupervisedLoop {
  readonly #options: LoopOptions
  readonly #sleep: Sleep
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  readonly #heartbeat: Heartbeat | undefined
  /** The end of the last turn begun; turns queue up behind it. */
  #lastTurn: Promise<void> = Promise.resolve()
  #woken = false
  #endSleep: (() => void) | undefined

  constructor(options: LoopOptions) {
    this.#options = options
    this.#sleep = options.sleep ?? sleep
    const { intervalMs, turnMsMax, backoff = defaultBackoff, jitter = 0.1 } = options
    const pauseMsMax = Math.max(intervalMs * (1 + jitter), backoff.maxMs)
    this.#heartbeat = options.health?.addHeartbeat(options.name, pauseMsMax + turnMsMax + silenceMarginMs)
    this.#ended = this.#turnUntilStopped()
  }

  wake(): void {
    this.#woken = true
    this.#endSleep?.()
  }

  runOnce(): Promise<void> {
    // A failed turn has been reported to its own caller; the next one begins regardless.
    const turn = this.#lastTurn.catch(() => undefined).then(() => this.#turn())
    this.#lastTurn = turn
    return turn
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#endSleep?.()
    await this.#ended
    await this.#lastTurn.catch(() => undefined)
    this.#heartbeat?.stop()
  }

  async #turnUntilStopped(): Promise<void> {
    let failures = 0
    while (!this.#stopping.signal.aborted) {
      this.#woken = false
      try {
        await this.runOnce()
        failures = 0
      } catch (error) {
        failures += 1
        if (!this.#stopping.signal.aborted) this.#options.onError(error, failures)
      }
      if (failures === 0 || this.#options.failuresStopHeartbeat !== true) this.#heartbeat?.beat()
      await this.#pause(failures)
    }
  }

  async #turn(): Promise<void> {
    if (this.#stopping.signal.aborted) throw new Error(`the loop ${this.#options.name} is stopped`)
    const turn = new AbortController()
    const abort = () => turn.abort()
    const timer = setTimeout(abort, this.#options.turnMsMax)
    this.#stopping.signal.addEventListener('abort', abort, { once: true })
    try {
      await this.#options.runOnce(turn.signal)
    } finally {
      clearTimeout(timer)
      this.#stopping.signal.removeEventListener('abort', abort)
    }
  }

  async #pause(failures: number): Promise<void> {
    if (this.#stopping.signal.aborted) return
    const { intervalMs, jitter = 0.1, backoff = defaultBackoff, random = Math.random } = this.#options
    const cut = new AbortController()
    const end = () => cut.abort()
    this.#stopping.signal.addEventListener('abort', end, { once: true })
    if (failures > 0) {
      // Whoever wakes us may do so without pause, and must not turn a failure into a storm.
      await this.#sleep(backoffMs(failures - 1, backoff, random()), cut.signal)
    } else if (!this.#woken) {
      this.#endSleep = end
      await this.#sleep(intervalMs * (1 + jitter * (2 * random() - 1)), cut.signal)
      this.#endSleep = undefined
    }
    this.#stopping.signal.removeEventListener('abort', end)
  }
}

/** Waits `ms`, or until the signal fires if that is sooner. Never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

/** Sleep on the machine's own timers. */
export const sleep: Sleep = (ms, signal) => {
  if (signal.aborted) return Promise.resolve()
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer)
      signal.removeEventListener('abort', done)
      resolve()
    }
    const timer = setTimeout(done, ms)
    signal.addEventListener('abort', done, { once: true })
  })
}

import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health, Heartbeat } from '#internal/telemetry/index.ts'

/** Options of `superviseLoop`. */
export interface LoopOptions {
  readonly name: string
  /** Pause between the end of one run and the start of the next. */
  readonly intervalMs: number
  /**
   * Time limit of a run. When it is exceeded, the signal of the run aborts, but the loop still waits for the run, so that runs never
   * overlap.
   */
  readonly turnMsMax: number
  /** Does a bounded amount of work. Errors are passed to `onError`. */
  readonly runOnce: (signal: AbortSignal) => Promise<void>
  /** Called after a failed run with the number of consecutive failures. Must not throw. */
  readonly onError: (error: unknown, failures: number) => void
  /** Random variation of the interval, as a share of the interval from 0 to 1. Default 0.1. */
  readonly jitter?: number
  /** Backoff after failed runs. Default 200 ms to 10 s. */
  readonly backoff?: BackoffBounds
  /** Health to which the loop sends its heartbeat. */
  readonly health?: Health
  /** Sends a heartbeat only after successful runs, so that continuous failures fail liveness. Default false. */
  readonly failuresStopHeartbeat?: boolean
  readonly sleep?: Sleep
  readonly random?: () => number
}

const defaultBackoff: BackoffBounds = { firstMs: 200, maxMs: 10_000 }
/** Margin added to the longest regular silence before a loop is considered stuck. */
const silenceMarginMs = 15_000

/** Starts a loop. The first run starts immediately. Failed runs are retried with backoff. */
export function superviseLoop(options: LoopOptions): SupervisedLoop {
  return new SupervisedLoop(options)
}

/** Running loop; see `superviseLoop`. */
export class SupervisedLoop {
  readonly #options: LoopOptions
  readonly #sleep: Sleep
  readonly #stopping = new AbortController()
  readonly #ended: Promise<void>
  readonly #heartbeat: Heartbeat | undefined
  /** Settles when the last started run ends. Further runs queue behind it. */
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

  /** Starts the next run now, or immediately after the current run. Does not shorten the backoff after a failure. */
  wake(): void {
    this.#woken = true
    this.#endSleep?.()
  }

  /** Runs once after the current run. @throws the error of the run, or an Error after `stop` */
  runOnce(): Promise<void> {
    // A failed run has already reported its error to its own caller, so the next run starts regardless.
    const turn = this.#lastTurn.catch(() => undefined).then(() => this.#turn())
    this.#lastTurn = turn
    return turn
  }

  /** Aborts the signal of the current run, waits for the run, and starts no other run. Idempotent; never rejects. */
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
      // Waits for the backoff even after `wake`, so that frequent calls cannot turn a failure into a retry storm.
      await this.#sleep(backoffMs(failures - 1, backoff, random()), cut.signal)
    } else if (!this.#woken) {
      this.#endSleep = end
      await this.#sleep(intervalMs * (1 + jitter * (2 * random() - 1)), cut.signal)
      this.#endSleep = undefined
    }
    this.#stopping.signal.removeEventListener('abort', end)
  }
}

/** Waits `ms` milliseconds, or until the signal aborts. Never rejects. */
export type Sleep = (ms: number, signal: AbortSignal) => Promise<void>

/** Sleeps with real timers. */
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

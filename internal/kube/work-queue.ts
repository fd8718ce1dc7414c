import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { DueTimes } from './due-times.ts'
import { systemTiming, type Timing } from './timing.ts'

/** How a turn of work ended well: nothing more to do, or the same again after a while. */
export type WorkOutcome = { readonly kind: 'done' } | { readonly kind: 'again'; readonly afterMs: number }

/** What counts a queue; each call must be cheap and must not throw. */
export interface WorkQueueHooks {
  added(): void
  /** Keys that wait for a worker; those that wait for their time are not among them. */
  depth(count: number): void
  /** A worker took a key that had waited so long. */
  started(waitedSeconds: number): void
  finished(result: 'success' | 'requeue_after' | 'error', workedSeconds: number): void
  /** A failed key waits for its next try. */
  retried(): void
}

/** What a queue is made of. */
export interface WorkQueueOptions {
  readonly name: string
  /** Turns that run at once, of different keys. */
  readonly concurrency: number
  /** One turn: brings what the key names to where it should be. Repeated at any time; what it throws is a failure. */
  readonly work: (key: string, signal: AbortSignal) => Promise<WorkOutcome>
  /** Hears of a failed turn, with the number of failures in a row. Must not throw. */
  readonly onError: (key: string, error: unknown, failures: number) => void
  /** After this long the turn's signal fires; the turn is waited for all the same. Default 60 s. */
  readonly workMsMax?: number
  /** The waits after failures; default 200 ms to 5 min. */
  readonly backoff?: BackoffBounds
  /** Different keys in here at once; default 200 000. */
  readonly keysMax?: number
  readonly hooks?: WorkQueueHooks
  /** Where the queue shows that no turn hangs: a turn that outlives its signal by 15 s makes the process count as dead. */
  readonly health?: Health
  /** Replaced in tests only. */
  readonly timing?: Timing
}

/** What a queue holds at a moment. */
export interface WorkQueueStats {
  readonly depth: number
  readonly running: number
  /** The time of all running turns together, and of the longest. */
  readonly unfinishedMs: number
  readonly longestMs: number
}

/** A queue of keys to work on. */
export interface WorkQueue {
  /**
   * Has the key worked on soon: once, however often it is added before that; once more if it is added during its turn.
   * Ignored once stopped. @throws RangeError when there are too many keys
   */
  add(key: string): void
  /** The same after a while; the soonest of several counts. */
  addAfter(key: string, afterMs: number): void
  stats(): WorkQueueStats
  /** Resolves when nothing runs and nothing waits for a worker; what waits for its time does not count. */
  idle(): Promise<void>
  /** Begins no other turn, tells those that run to end, and waits for them. Repeating it is harmless; never rejects. */
  stop(): Promise<void>
}

const defaultBackoff: BackoffBounds = { firstMs: 200, maxMs: 300_000 }
const overrunMsMax = 15_000
const watchMs = 5000

/** Starts a queue; its workers begin with the first key. A key is never in two turns at once. */
export function startWorkQueue(options: WorkQueueOptions): WorkQueue {
  return new Queue(options)
}

class Queue implements WorkQueue {
  readonly #options: WorkQueueOptions
  readonly #timing: Timing
  readonly #workMsMax: number
  /** Waiting for a worker, in order, with the time since when. */
  readonly #ready = new Map<string, number>()
  /** In a turn, with the time of its begin. */
  readonly #running = new Map<string, number>()
  /** Added during their turn. */
  readonly #dirty = new Set<string>()
  readonly #failures = new Map<string, number>()
  /** When a key's last turn wants it back: after a failure, or because it said so. The next turn decides anew. */
  readonly #again = new DueTimes()
  /** When somebody else wants it worked on; stands until then. */
  readonly #later = new DueTimes()
  readonly #turns = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #background: Promise<unknown>
  #wakeTimer: () => void = () => undefined
  #idleWaiters: (() => void)[] = []

  constructor(options: WorkQueueOptions) {
    this.#options = options
    this.#timing = options.timing ?? systemTiming
    this.#workMsMax = options.workMsMax ?? 60_000
    this.#background = Promise.all([this.#bringDue(), this.#watchTurns()])
  }

  add(key: string): void {
    if (this.#stopping.signal.aborted) return
    this.#checkRoom(key)
    this.#enqueue(key)
  }

  addAfter(key: string, afterMs: number): void {
    if (this.#stopping.signal.aborted) return
    if (!(afterMs > 0)) {
      this.add(key)
      return
    }
    this.#checkRoom(key)
    const dueAtMs = this.#timing.now() + afterMs
    const before = this.#later.get(key)
    if (before !== undefined && before <= dueAtMs) return
    this.#later.set(key, dueAtMs)
    this.#wakeTimer()
  }

  stats(): WorkQueueStats {
    const now = this.#timing.now()
    const ages = [...this.#running.values()].map((startedMs) => now - startedMs)
    return {
      depth: this.#ready.size,
      running: ages.length,
      unfinishedMs: ages.reduce((sum, age) => sum + age, 0),
      longestMs: Math.max(0, ...ages),
    }
  }

  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#ready.clear()
    this.#dirty.clear()
    this.#again.clear()
    this.#later.clear()
    this.#wakeTimer()
    this.#options.hooks?.depth(0)
    await Promise.all([...this.#turns, this.#background])
    this.#tellIdle()
  }

  #enqueue(key: string): void {
    if (this.#ready.has(key) || this.#dirty.has(key)) return
    this.#options.hooks?.added()
    if (this.#running.has(key)) {
      this.#dirty.add(key)
      return
    }
    this.#ready.set(key, this.#timing.now())
    this.#begin()
  }

  #checkRoom(key: string): void {
    const { keysMax = 200_000, name } = this.#options
    const known = this.#ready.has(key) || this.#running.has(key) || this.#later.get(key) !== undefined
    if (known || (this.#ready.size < keysMax && this.#later.size < keysMax)) return
    throw new RangeError(`the queue ${name} holds ${keysMax} keys already`)
  }

  /** Gives waiting keys to free workers. */
  #begin(): void {
    for (const [key, readyAtMs] of this.#ready) {
      if (this.#running.size >= this.#options.concurrency) break
      this.#ready.delete(key)
      const turn = this.#turn(key, readyAtMs).finally(() => this.#turns.delete(turn))
      this.#turns.add(turn)
    }
    this.#options.hooks?.depth(this.#ready.size)
  }

  async #turn(key: string, readyAtMs: number): Promise<void> {
    const startedMs = this.#timing.now()
    this.#running.set(key, startedMs)
    this.#again.delete(key)
    const { hooks } = this.#options
    hooks?.started((startedMs - readyAtMs) / 1000)
    const result = await this.#work(key)
    hooks?.finished(result, (this.#timing.now() - startedMs) / 1000)
    this.#running.delete(key)
    if (this.#dirty.delete(key)) this.#ready.set(key, this.#timing.now())
    if (!this.#stopping.signal.aborted) this.#begin()
    if (this.#isIdle()) this.#tellIdle()
  }

  async #work(key: string): Promise<'success' | 'requeue_after' | 'error'> {
    const over = new AbortController()
    const late = new AbortController()
    const cut = () => over.abort()
    this.#stopping.signal.addEventListener('abort', cut, { once: true })
    // Not waited for: it ends with the turn.
    void this.#timing.sleep(this.#workMsMax, late.signal).then(cut)
    try {
      const outcome = await this.#options.work(key, over.signal)
      this.#failures.delete(key)
      if (outcome.kind === 'done') return 'success'
      this.#bringAgain(key, outcome.afterMs)
      return 'requeue_after'
    } catch (error) {
      this.#retry(key, error)
      return 'error'
    } finally {
      this.#stopping.signal.removeEventListener('abort', cut)
      late.abort()
    }
  }

  #retry(key: string, error: unknown): void {
    // What a turn throws because it was told to end is no failure.
    if (this.#stopping.signal.aborted) return
    const failures = (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    const { backoff = defaultBackoff, hooks, onError } = this.#options
    this.#bringAgain(key, backoffMs(failures - 1, backoff, this.#timing.random()))
    hooks?.retried()
    onError(key, error, failures)
  }

  #bringAgain(key: string, afterMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#again.set(key, this.#timing.now() + Math.max(0, afterMs))
    this.#wakeTimer()
  }

  /** Moves keys whose time has come to where the workers take them. One timer for all of them. */
  async #bringDue(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const now = this.#timing.now()
      for (const due of [this.#again, this.#later])
        for (let key = due.takeDue(now); key !== undefined; key = due.takeDue(now)) this.#enqueue(key)
      const nextMs = Math.min(this.#again.first() ?? Infinity, this.#later.first() ?? Infinity)
      const woken = new AbortController()
      this.#wakeTimer = () => woken.abort()
      // A timer of more than 2^31 ms would fire at once.
      await this.#timing.sleep(Math.min(nextMs - now, 2 ** 30), woken.signal)
    }
  }

  async #watchTurns(): Promise<void> {
    const { health, name } = this.#options
    const heartbeat = health?.addHeartbeat(`queue ${name}`, watchMs * 4)
    if (!heartbeat) return
    while (!this.#stopping.signal.aborted) {
      if (this.stats().longestMs <= this.#workMsMax + overrunMsMax) heartbeat.beat()
      await this.#timing.sleep(watchMs, this.#stopping.signal)
    }
    heartbeat.stop()
  }

  #isIdle(): boolean {
    return this.#ready.size === 0 && this.#running.size === 0
  }

  #tellIdle(): void {
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const waiter of waiters) waiter()
  }
}

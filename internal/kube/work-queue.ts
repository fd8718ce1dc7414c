import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health } from '#internal/telemetry/index.ts'
import { systemTiming, type Timing } from './waits.ts'

/** Result of a successful run: the key is done, or runs again after a delay. */
export type WorkOutcome = { readonly kind: 'done' } | { readonly kind: 'again'; readonly afterMs: number }

export interface WorkQueueOptions {
  readonly name: string
  readonly concurrency: number
  /** Must be idempotent: an exception counts as a failure and causes a retry. */
  readonly work: (key: string, signal: AbortSignal) => Promise<WorkOutcome>
  /** `failures` counts consecutive failures. Must not throw. */
  readonly onError: (key: string, error: unknown, failures: number) => void
  /** Time after which the signal of a run fires; default 60 s. The queue still waits for the run to end. */
  readonly workMsMax?: number
  /** Delays after failures; default 200 ms to 5 min. */
  readonly backoff?: BackoffBounds
  /** Maximum number of keys; default 200 000. */
  readonly keysMax?: number
  readonly hooks?: {
    added(): void
    /** Called with the number of keys that wait for a worker, without delayed keys. */
    depth(count: number): void
    started(waitedSeconds: number): void
    finished(result: 'success' | 'requeue_after' | 'error', workedSeconds: number): void
    retried(): void
  }
  /** Liveness fails when a run continues for 15 s after its signal has fired. */
  readonly health?: Health
  readonly timing?: Timing
}

const defaultBackoff: BackoffBounds = { firstMs: 200, maxMs: 300_000 }
const overrunMsMax = 15_000
const watchMs = 5000

/** A queue of keys to reconcile. A key never runs twice at the same time. */
export class WorkQueue {
  readonly #options: WorkQueueOptions
  readonly #timing: Timing
  readonly #workMsMax: number
  readonly #ready = new Map<string, number>()
  readonly #running = new Map<string, number>()
  readonly #dirty = new Set<string>()
  readonly #failures = new Map<string, number>()
  /** Failed keys, and keys that their last run scheduled again. A run removes the delay of its key. */
  readonly #delayed = new DueTimes()
  readonly #turns = new Set<Promise<void>>()
  readonly #stopping = new AbortController()
  readonly #background: Promise<unknown>
  #wakeTimer: () => void = () => undefined
  #idleWaiters: (() => void)[] = []

  constructor(options: WorkQueueOptions) {
    this.#options = options
    this.#timing = options.timing ?? systemTiming
    this.#workMsMax = options.workMsMax ?? 60_000
    this.#background = Promise.all([this.#queueDue(), this.#watchTurns()])
  }

  /**
   * Queues a key. Repeating the call before the run of the key has no effect; during the run, it causes another run. Ignored after `stop`.
   * @throws RangeError beyond `keysMax`
   */
  add(key: string): void {
    if (this.#stopping.signal.aborted) return
    this.#checkRoom(key)
    this.#enqueue(key)
  }

  stats(): {
    readonly depth: number
    readonly running: number
    readonly unfinishedMs: number
    readonly longestMs: number
  } {
    const nowMs = this.#timing.now()
    const ages = [...this.#running.values()].map((startedMs) => nowMs - startedMs)
    return {
      depth: this.#ready.size,
      running: ages.length,
      unfinishedMs: ages.reduce((sum, age) => sum + age, 0),
      longestMs: Math.max(0, ...ages),
    }
  }

  /** Resolves when no key is running or waits for a worker. Delayed keys do not count. */
  idle(): Promise<void> {
    if (this.#isIdle()) return Promise.resolve()
    return new Promise((resolve) => this.#idleWaiters.push(resolve))
  }

  /** Aborts the current runs and waits for them. Idempotent; never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#ready.clear()
    this.#dirty.clear()
    this.#wakeTimer()
    this.#options.hooks?.depth(0)
    await Promise.all([...this.#turns, this.#background])
    this.#notifyIdle()
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
    if (this.#ready.has(key) || this.#running.has(key) || this.#ready.size < keysMax) return
    throw new RangeError(`the work queue ${name} is full: it contains ${keysMax} keys`)
  }

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
    this.#delayed.delete(key)
    const { hooks } = this.#options
    hooks?.started((startedMs - readyAtMs) / 1000)
    const result = await this.#work(key)
    hooks?.finished(result, (this.#timing.now() - startedMs) / 1000)
    this.#running.delete(key)
    if (this.#dirty.delete(key)) this.#ready.set(key, this.#timing.now())
    if (!this.#stopping.signal.aborted) this.#begin()
    if (this.#isIdle()) this.#notifyIdle()
  }

  async #work(key: string): Promise<'success' | 'requeue_after' | 'error'> {
    const over = new AbortController()
    const late = new AbortController()
    const cut = () => over.abort()
    this.#stopping.signal.addEventListener('abort', cut, { once: true })
    // Not awaited, because the timer ends with the run.
    void this.#timing.sleep(this.#workMsMax, late.signal).then(cut)
    try {
      const outcome = await this.#options.work(key, over.signal)
      this.#failures.delete(key)
      if (outcome.kind === 'done') return 'success'
      this.#delay(key, outcome.afterMs)
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
    // After `stop` has aborted the run, an exception does not count as a failure.
    if (this.#stopping.signal.aborted) return
    const failures = (this.#failures.get(key) ?? 0) + 1
    this.#failures.set(key, failures)
    const { backoff = defaultBackoff, hooks, onError } = this.#options
    this.#delay(key, backoffMs(failures - 1, backoff, this.#timing.random()))
    hooks?.retried()
    onError(key, error, failures)
  }

  #delay(key: string, afterMs: number): void {
    if (this.#stopping.signal.aborted) return
    this.#delayed.set(key, this.#timing.now() + Math.max(0, afterMs))
    this.#wakeTimer()
  }

  /** Queues delayed keys when they are due, with one timer for all keys. */
  async #queueDue(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      const nowMs = this.#timing.now()
      for (let key = this.#delayed.takeDue(nowMs); key !== undefined; key = this.#delayed.takeDue(nowMs))
        this.#enqueue(key)
      const nextMs = this.#delayed.first() ?? Infinity
      const woken = new AbortController()
      this.#wakeTimer = () => woken.abort()
      // Sleeps at most 2^30 ms, because a setTimeout of more than 2^31 ms would fire immediately.
      await this.#timing.sleep(Math.min(nextMs - nowMs, 2 ** 30), woken.signal)
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

  #notifyIdle(): void {
    const waiters = this.#idleWaiters
    this.#idleWaiters = []
    for (const waiter of waiters) waiter()
  }
}

interface DueKey {
  readonly key: string
  dueAtMs: number
  at: number
}

export class DueTimes {
  readonly #heap: DueKey[] = []
  readonly #byKey = new Map<string, DueKey>()

  get size(): number {
    return this.#heap.length
  }

  first(): number | undefined {
    return this.#heap[0]?.dueAtMs
  }

  set(key: string, dueAtMs: number): void {
    const due = this.#byKey.get(key) ?? { key, dueAtMs, at: this.#heap.length }
    due.dueAtMs = dueAtMs
    this.#byKey.set(key, due)
    this.#heap[due.at] = due
    this.#sift(due)
  }

  delete(key: string): void {
    const due = this.#byKey.get(key)
    if (!due) return
    this.#byKey.delete(key)
    const last = this.#heap.pop()
    if (!last || last === due) return
    last.at = due.at
    this.#heap[last.at] = last
    this.#sift(last)
  }

  takeDue(nowMs: number): string | undefined {
    const first = this.#heap[0]
    if (!first || first.dueAtMs > nowMs) return undefined
    this.delete(first.key)
    return first.key
  }

  #sift(due: DueKey): void {
    for (let up = this.#parentOf(due); up && up.dueAtMs > due.dueAtMs; up = this.#parentOf(due))
      this.#swap(due, up)
    for (let down = this.#soonerChildOf(due); down && down.dueAtMs < due.dueAtMs; ) {
      this.#swap(due, down)
      down = this.#soonerChildOf(due)
    }
  }

  #parentOf(due: DueKey): DueKey | undefined {
    return due.at === 0 ? undefined : this.#heap[(due.at - 1) >> 1]
  }

  #soonerChildOf(due: DueKey): DueKey | undefined {
    const left = this.#heap[2 * due.at + 1]
    const right = this.#heap[2 * due.at + 2]
    return right && left && right.dueAtMs < left.dueAtMs ? right : left
  }

  #swap(one: DueKey, other: DueKey): void {
    const at = one.at
    one.at = other.at
    other.at = at
    this.#heap[one.at] = one
    this.#heap[other.at] = other
  }
}

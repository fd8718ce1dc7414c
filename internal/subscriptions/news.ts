import { type Clock, Shares, type TenantId } from '#internal/base/index.ts'
import { type FeedPosition, feedStart, findReadyFeeds } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'

export interface FeedNewsOptions {
  /** Pool with `eventReadSettings`. */
  readonly pool: Pool
  readonly clock: Clock
  /** Ends all waits when it aborts. */
  readonly ending: AbortSignal
  /** Called with the error of an unavailable store. Must not throw. */
  onTrouble(cause: unknown): void
}

const checkEveryMs = 5_000
/** Maximum waiting pulls in a process. A quarter of these may belong to one tenant. */
const pullsMax = 400
/** Pauses before repeated reads after news: an older transaction in progress can hide the new event from the feed for a moment. */
const againMs = [20, 50, 100, 200, 400]
/** Minimum pause between two reads of a feed without events, for filters that match few events of a busy tenant. */
const restMs = 50

/**
 * Wakes the streams and waiting pulls of one process when their feeds have new events: intake publishes the tenant's id after it commits an
 * event. A periodic query finds events whose notification was lost.
 */
export class FeedNews {
  readonly #options: FeedNewsOptions
  readonly #readers = new Set<FeedReader>()
  readonly #pulls = new Shares(pullsMax)
  readonly #timer: Timer
  #isChecking = false

  constructor(options: FeedNewsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#check(), checkEveryMs)
    options.ending.addEventListener('abort', () => this.#endAll())
  }

  notify(news: readonly TenantId[] | 'all'): void {
    for (const reader of this.#readers) if (news === 'all' || news.includes(reader.tenantId)) reader.ring()
  }

  /** The caller closes the reader. `EventStreams` bounds the number of streams. */
  openForStream(tenantId: TenantId): FeedReader {
    return this.#open(new FeedReader({ tenantId, clock: this.#options.clock, tries: 0 }))
  }

  /** The caller closes the reader. Returns undefined if too many pulls of the process or of the tenant wait. */
  openForPull(tenantId: TenantId): FeedReader | undefined {
    if (!this.#pulls.take(1, tenantId)) return undefined
    const reader = new FeedReader({ tenantId, clock: this.#options.clock, tries: againMs.length })
    reader.closed.addEventListener('abort', () => this.#pulls.give(1, tenantId), { once: true })
    return this.#open(reader)
  }

  #open(reader: FeedReader): FeedReader {
    this.#readers.add(reader)
    reader.closed.addEventListener('abort', () => this.#readers.delete(reader), { once: true })
    if (this.#options.ending.aborted) reader.close()
    return reader
  }

  async #check(): Promise<void> {
    const waiting = [...this.#readers].filter(({ isWaiting }) => isWaiting)
    if (this.#isChecking || waiting.length === 0) return
    this.#isChecking = true
    const { pool, clock, onTrouble } = this.#options
    try {
      for (const at of await findReadyFeeds(pool, waiting, clock.now())) waiting[at]?.ring()
    } catch (cause) {
      onTrouble(cause)
    } finally {
      this.#isChecking = false
    }
  }

  #endAll(): void {
    clearInterval(this.#timer)
    for (const reader of this.#readers) reader.close()
  }
}

/** Waits for new events in a feed. A notification that arrives between two waits ends the next wait. */
export class FeedReader {
  readonly tenantId: TenantId
  after: FeedPosition = feedStart
  readonly #clock: Clock
  readonly #closing = new AbortController()
  #tries: number
  #isRung = false
  #wake: (() => void) | undefined

  constructor({
    tenantId,
    clock,
    tries,
  }: {
    readonly tenantId: TenantId
    readonly clock: Clock
    /** Index in `againMs` of the next pause. */
    readonly tries: number
  }) {
    this.tenantId = tenantId
    this.#clock = clock
    this.#tries = tries
  }

  /** Aborts when the reader is closed, by its caller or at the end of the process. */
  get closed(): AbortSignal {
    return this.#closing.signal
  }

  get isWaiting(): boolean {
    return this.#wake !== undefined
  }

  /** Ends the current wait; without one, ends the next wait. */
  ring(): void {
    this.#isRung = true
    this.#wake?.()
  }

  /** Waits at most `msMax` after an empty read. Returns true if another read is due: after news, a few times more, or when closed. */
  async wait(msMax: number): Promise<boolean> {
    const startedAtMs = this.#clock.now()
    const pauseMs = againMs[this.#tries]
    await this.#sleep(Math.min(pauseMs ?? msMax, msMax))
    if (!this.#isRung) {
      this.#tries = Math.min(this.#tries + 1, againMs.length)
      return pauseMs !== undefined
    }
    const leftMs = startedAtMs + Math.min(restMs, msMax) - this.#clock.now()
    this.#isRung = false
    if (leftMs > 0 && !this.closed.aborted) await this.#sleep(leftMs)
    this.#tries = 0
    return true
  }

  async #sleep(ms: number): Promise<void> {
    if (this.#isRung || this.closed.aborted) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, ms)
    this.#wake = resolve
    await promise
    clearTimeout(timer)
    this.#wake = undefined
  }

  /** Ends the wait, and removes the reader. Safe to repeat. */
  close(): void {
    this.#closing.abort()
    this.ring()
  }
}

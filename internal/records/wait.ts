import { Bell, Shares, type TenantId, within } from '#internal/base/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { type AcquireOutcome, decideWaitMs } from './record.ts'
import { wakeChannel } from './store.ts'

/** A caller that waits for a busy key. */
export interface Waiter {
  readonly tenantId: TenantId
  /** The entry's key in Redis, which is what is published when its lock ends. */
  readonly entry: string
  readonly waitMs: number
  /** Fires when the caller has hung up. */
  readonly signal?: AbortSignal
}

type Busy = Extract<AcquireOutcome, { kind: 'busy' }>
type Done = Exclude<AcquireOutcome, { kind: 'busy' }>
/** One more try: what it came to, or that the key is still busy. */
type Attempt = () => Promise<Busy | { readonly kind: 'done'; readonly outcome: Done }>

/** Callers that wait at a time in one process, of which a tenant gets a quarter; one more gets its answer at once. */
const waitersMax = 1000
/** Tries of one waiter: its deadline ends it sooner unless somebody takes and frees the key without pause. */
const attemptsMax = 500

/** Maximum wait for the subscription before a waiter polls without it. */
const subscribeMsMax = 150

interface Channel {
  readonly listeners: Map<string, Set<() => void>>
  count: number
}

/** Callers that wait for busy keys, woken by what the scripts publish, and by a poll where nothing comes. */
export class Waiters {
  readonly #redis: RedisConnection
  readonly #channels = new Map<string, Channel>()
  /** Subscribing and unsubscribing of one channel go one after another, so that an end cannot overtake a new beginning. */
  readonly #turns = new Map<string, Promise<unknown>>()
  readonly #places = new Shares(waitersMax)

  constructor(redis: RedisConnection) {
    this.#redis = redis
  }

  /** Number of waiting callers. */
  get count(): number {
    return this.#places.taken
  }

  /**
   * Tries again until the key is not busy or `waitMs` is over: subscribe, try, then sleep until the publish, the lock's end
   * or a second. Gives the last `busy` when it ran out of time, when too many wait, in all or of its tenant, or when the
   * caller hung up.
   */
  async wait(waiter: Waiter, first: Busy, attempt: Attempt): Promise<AcquireOutcome> {
    if (!this.#places.take(1, waiter.tenantId)) return first
    const deadlineMs = performance.now() + waiter.waitMs
    const bell = new Bell()
    const hungUp = () => bell.ring()
    waiter.signal?.addEventListener('abort', hungUp, { once: true })
    // Redis that hangs just now must not take longer here than the try below has left until its own 503.
    await within(subscribeMsMax, this.#listen(waiter, bell.ring), () => undefined)
    try {
      return await this.#tryUntil(deadlineMs, waiter, bell, first, attempt)
    } finally {
      this.#places.give(1, waiter.tenantId)
      waiter.signal?.removeEventListener('abort', hungUp)
      this.#unlisten(waiter, bell.ring)
    }
  }

  async #tryUntil(
    deadlineMs: number,
    waiter: Waiter,
    bell: Bell,
    first: Busy,
    attempt: Attempt,
  ): Promise<AcquireOutcome> {
    let busy = first
    for (let tries = 0; tries < attemptsMax; tries += 1) {
      if (waiter.signal?.aborted) return busy
      const next = await attempt()
      if (next.kind === 'done') return next.outcome
      busy = next
      const sleepMs = decideWaitMs(busy.remainingMs, deadlineMs, performance.now())
      if (sleepMs === 0) return busy
      await bell.sleep(sleepMs)
    }
    return busy
  }

  /** Subscribes for the first waiter of a tenant. Where it fails the waiter still polls, so the failure is no answer. */
  #listen(waiter: Waiter, ring: () => void): Promise<unknown> {
    const name = wakeChannel(waiter.tenantId)
    const channel = this.#channels.get(name) ?? { listeners: new Map(), count: 0 }
    this.#channels.set(name, channel)
    channel.count += 1
    const rings = channel.listeners.get(waiter.entry) ?? new Set()
    channel.listeners.set(waiter.entry, rings.add(ring))
    if (channel.count > 1) return this.#turns.get(name) ?? Promise.resolve()
    return this.#inTurn(name, () =>
      this.#redis.subscribe(name, (entry) => {
        for (const wake of this.#channels.get(name)?.listeners.get(entry) ?? []) wake()
      }),
    )
  }

  #unlisten(waiter: Waiter, ring: () => void): void {
    const name = wakeChannel(waiter.tenantId)
    const channel = this.#channels.get(name)
    if (!channel) return
    const rings = channel.listeners.get(waiter.entry)
    rings?.delete(ring)
    if (rings?.size === 0) channel.listeners.delete(waiter.entry)
    channel.count -= 1
    if (channel.count > 0) return
    this.#channels.delete(name)
    void this.#inTurn(name, async () => {
      if (!this.#channels.has(name)) await this.#redis.unsubscribe(name)
    })
  }

  #inTurn(name: string, step: () => Promise<void>): Promise<unknown> {
    const before = this.#turns.get(name) ?? Promise.resolve()
    const turn = before
      .then(step)
      .catch(() => undefined)
      .finally(() => {
        if (this.#turns.get(name) === turn) this.#turns.delete(name)
      })
    this.#turns.set(name, turn)
    return turn
  }
}

import { Bell, Shares, type TenantId, within } from '#internal/base/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { type AcquireOutcome, decideWaitMs } from './record.ts'
import { wakeChannel } from './store.ts'

export interface Waiter {
  readonly tenantId: TenantId
  /** Redis key of the lock, published when the lock ends. */
  readonly entry: string
  readonly waitMs: number
  readonly signal?: AbortSignal
}

type Busy = Extract<AcquireOutcome, { kind: 'busy' }>
type Attempt = () => Promise<
  Busy | { readonly kind: 'done'; readonly outcome: Exclude<AcquireOutcome, { kind: 'busy' }> }
>

/** Maximum waiting callers per process; a tenant may use a quarter. Further callers get an immediate response. */
const waitersMax = 1000
/** Maximum attempts of a waiting caller. Only reached before its deadline if other callers acquire the key again and again. */
const attemptsMax = 500

/** Maximum time for the subscription. Afterwards a waiting caller polls, even without a subscription. */
const subscribeMsMax = 150

/** Waiting callers of a tenant by entry, and the one listener that wakes them. */
interface Channel {
  readonly entries: Map<string, Set<() => void>>
  wake(entry: string): void
}

function openChannel(): Channel {
  const entries: Channel['entries'] = new Map()
  return { entries, wake: (entry) => entries.get(entry)?.forEach((ring) => ring()) }
}

/** Lets callers wait for busy keys. Messages that the Lua scripts publish wake the callers, which also poll, in case a message is lost. */
export class Waiters {
  readonly #redis: RedisConnection
  readonly #channels = new Map<string, Channel>()
  readonly #places = new Shares(waitersMax)

  constructor(redis: RedisConnection) {
    this.#redis = redis
  }

  get count(): number {
    return this.#places.taken
  }

  /**
   * Repeats the attempt until the key is not busy or `waitMs` is over: subscribes, tries, then sleeps until a message arrives, the lock
   * ends or a second passes. Returns the last `busy` if time is up, the caller has hung up, or too many callers of the tenant or in the
   * process already wait.
   */
  async wait(waiter: Waiter, first: Busy, attempt: Attempt): Promise<AcquireOutcome> {
    if (!this.#places.take(1, waiter.tenantId)) return first
    const deadlineMs = performance.now() + waiter.waitMs
    const bell = new Bell()
    const hungUp = () => bell.ring()
    waiter.signal?.addEventListener('abort', hungUp, { once: true })
    // Short, so that the attempt below can still return its own 503 in time if Redis hangs.
    await within(subscribeMsMax, this.#listen(waiter, bell.ring), () => undefined)
    try {
      return await this.#tryUntil({ waiter, bell, deadlineMs }, first, attempt)
    } finally {
      this.#places.give(1, waiter.tenantId)
      waiter.signal?.removeEventListener('abort', hungUp)
      this.#unlisten(waiter, bell.ring)
    }
  }

  async #tryUntil(
    {
      waiter,
      bell,
      deadlineMs,
    }: { readonly waiter: Waiter; readonly bell: Bell; readonly deadlineMs: number },
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

  /** If the subscription fails, the waiter still polls. */
  #listen({ tenantId, entry }: Waiter, ring: () => void): Promise<unknown> {
    const name = wakeChannel(tenantId)
    const channel = this.#channels.get(name) ?? openChannel()
    this.#channels.set(name, channel)
    const { entries, wake } = channel
    entries.set(entry, (entries.get(entry) ?? new Set()).add(ring))
    return this.#redis.subscribe(name, wake).catch(() => undefined)
  }

  #unlisten({ tenantId, entry }: Waiter, ring: () => void): void {
    const name = wakeChannel(tenantId)
    const entries = this.#channels.get(name)?.entries
    const rings = entries?.get(entry)
    rings?.delete(ring)
    if (rings?.size === 0) entries?.delete(entry)
    if (entries?.size !== 0) return
    this.#channels.delete(name)
    this.#redis.unsubscribe(name).catch(() => undefined)
  }
}

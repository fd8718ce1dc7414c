import {
  type BackoffBounds,
  backoffMs,
  type EventId,
  expiryDayOf,
  type TenantId,
  within,
} from '#internal/base/index.ts'
import {
  closeBreaker,
  complete,
  type Ending,
  type Leased,
  openBreaker,
  releaseProbe,
  suspendCallback,
} from '#internal/events/index.ts'
import { sleep } from '#internal/process/index.ts'
import { classifySqlError, type Pool } from '#internal/storage/index.ts'
import { breakerOpenMs } from './breaker.ts'
import type { ForwarderObserver } from './observer.ts'
import { type QueueChange, strongestChanges } from './queue-change.ts'

/** A row's end, and what it means for its tenant queue. */
export interface Concluded {
  /** The queue's own from now on: its lease is renewed, and may be taken anew, until the end is written. */
  readonly leased: Leased
  readonly ending: Ending
  readonly queueChange?: QueueChange | undefined
}

interface Uncompleted {
  readonly leased: Leased
  readonly ending: Ending
  /** Undefined once it is written. */
  queueChange: QueueChange | undefined
}

/** How often one batch, with all parts of it, was refused by Postgres itself. */
interface Tries {
  failures: number
}

/** What the queue works with. */
export interface CompletionQueueOptions {
  readonly pool: Pool
  readonly leaseToken: string
  readonly observer: Pick<
    ForwarderObserver,
    'leasesLost' | 'failed' | 'unwritable' | 'breakerOpened' | 'callbackSuspended'
  >
}

const rowsMax = 500
/** One statement commits while the next one is gathered; a second one begins only for many rows. */
const statementsMax = 2
const secondStatementRows = 256
/**
 * Under load rows are gathered for this long since the last statement began, so that they share its cost: nobody waits for them,
 * and a forwarder that is killed leaves no more than these to be sent again. At rest a row goes at once.
 */
const gatherMs = 100
/** A failed batch is tried again for about a minute, while its leases are renewed; after it they end, and its rows are sent again. */
const triesMax = 40
const retryWaits: BackoffBounds = { firstMs: 100, maxMs: 2_000 }

/**
 * Brings the ends of attempts into few statements. Bounded by its caller, which claims nothing while much waits or nothing can be
 * written. One row that Postgres refuses for what is in it is given up, and holds up no other.
 */
export class CompletionQueue {
  readonly #options: CompletionQueueOptions
  readonly #closing = new AbortController()
  readonly #uncompleted = new Map<EventId, Uncompleted>()
  readonly #suspending = new Set<TenantId>()
  readonly #failing = new Set<Tries>()
  #waiting: Uncompleted[] = []
  #underWay = 0
  #statements = 0
  #startedAtMs = Number.NEGATIVE_INFINITY
  #timer: Timer | undefined
  #drained: (() => void) | undefined

  constructor(options: CompletionQueueOptions) {
    this.#options = options
  }

  /** Rows whose end is not written yet. */
  get size(): number {
    return this.#waiting.length + this.#underWay
  }

  /** Something could not be written and is tried again: whatever is begun now may end the same way. */
  get isFailing(): boolean {
    return this.#failing.size > 0
  }

  /** Tenants that asked to be left alone, as far as that is not written yet. */
  get suspending(): ReadonlySet<TenantId> {
    return this.#suspending
  }

  /** The leases of rows whose end is not written yet. */
  *leased(): Iterable<Leased> {
    for (const { leased } of this.#uncompleted.values()) yield leased
  }

  /** Takes a row's end; it is written soon, and tried again while Postgres is away. */
  add({ leased, ending, queueChange }: Concluded): void {
    const entry: Uncompleted = { leased, ending, queueChange }
    if (queueChange?.kind === 'suspend') this.#suspending.add(leased.delivery.tenantId)
    this.#uncompleted.set(leased.delivery.eventId, entry)
    this.#waiting.push(entry)
    this.#startNext()
  }

  /** Writes the end that is known of a row under its new claim. False when none is known of this attempt. */
  adopt({ delivery, leaseEndsMs }: Leased): boolean {
    const leased = this.#uncompleted.get(delivery.eventId)?.leased
    if (leased === undefined) return false
    const { cycle, attempts } = leased.delivery
    if (delivery.cycle !== cycle || delivery.attempts !== attempts) return false
    Object.assign(leased, { delivery, leaseEndsMs })
    return true
  }

  /** Settles once everything is written, or after `msMax`; then what is left is given up. */
  async drain(msMax: number): Promise<void> {
    const drained = new Promise<void>((resolve) => {
      this.#drained = resolve
    })
    if (this.size > 0) await within(msMax, drained, () => undefined)
    this.#closing.abort()
    clearTimeout(this.#timer)
  }

  #startNext(): void {
    if (this.#waiting.length === 0) {
      if (this.#underWay === 0) this.#drained?.()
      return
    }
    const many = this.#waiting.length >= secondStatementRows
    if (this.#statements >= (many ? statementsMax : 1)) return
    const waitMs = many ? 0 : this.#startedAtMs + gatherMs - performance.now()
    if (waitMs <= 0) return this.#start()
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#startNext()
    }, waitMs)
  }

  #start(): void {
    const batch = this.#waiting.splice(0, rowsMax)
    const tries: Tries = { failures: 0 }
    this.#startedAtMs = performance.now()
    this.#statements += 1
    this.#underWay += batch.length
    void this.#writeAll(batch, tries).finally(() => {
      this.#failing.delete(tries)
      this.#statements -= 1
      this.#underWay -= batch.length
      this.#startNext()
    })
  }

  /** Day by day, as statements go, so that what one of them wrote is not written again with another. */
  async #writeAll(batch: readonly Uncompleted[], tries: Tries): Promise<void> {
    const byDay = Map.groupBy(batch, ({ leased }) => expiryDayOf(leased.delivery.eventId))
    for (const part of byDay.values()) await this.#writeUntilDone(part, tries)
  }

  async #writeUntilDone(part: readonly Uncompleted[], tries: Tries): Promise<void> {
    const { observer } = this.#options
    while (tries.failures < triesMax && !this.#closing.signal.aborted) {
      try {
        await this.#write(part)
        this.#failing.delete(tries)
        return
      } catch (error) {
        const failure = classifySqlError(error)
        if (failure.kind === 'rejected') return await this.#writeHalves(part, failure.code, tries)
        observer.failed('complete', error)
        this.#failing.add(tries)
        await sleep(backoffMs(tries.failures, retryWaits, Math.random()), this.#closing.signal)
        tries.failures += 1
      }
    }
    for (const entry of part) this.#forget(entry)
    observer.leasesLost(part.length)
  }

  /** Until the row that is refused stands alone: at most twice as many statements as rows. */
  async #writeHalves(part: readonly Uncompleted[], refusal: string, tries: Tries): Promise<void> {
    const half = Math.floor(part.length / 2)
    if (half > 0) {
      await this.#writeUntilDone(part.slice(0, half), tries)
      return await this.#writeUntilDone(part.slice(half), tries)
    }
    for (const entry of part) {
      this.#forget(entry)
      this.#options.observer.unwritable(entry.leased.delivery, refusal)
    }
  }

  /** Tenant queues first: were their change lost, an ended event would have said something that nobody heeds. */
  async #write(part: readonly Uncompleted[]): Promise<void> {
    const { pool, leaseToken, observer } = this.#options
    await this.#changeQueues(part)
    const written = part.map(({ leased, ending }) => ({ delivery: leased.delivery, ending }))
    const completed = await complete(pool, leaseToken, written)
    let lost = 0
    for (const [at, entry] of part.entries()) {
      const delivery = written[at]?.delivery
      if (entry.leased.delivery !== delivery) {
        // It was claimed anew while it was written: it is ours under that claim.
        this.#waiting.push(entry)
        continue
      }
      this.#forget(entry)
      if (!completed.has(delivery.eventId)) lost += 1
    }
    if (lost > 0) observer.leasesLost(lost)
  }

  async #changeQueues(part: readonly Uncompleted[]): Promise<void> {
    const changes = strongestChanges(
      part.map(({ leased, queueChange }) => ({ tenantId: leased.delivery.tenantId, queueChange })),
    )
    if (changes.size === 0) return
    for (const [tenantId, change] of changes) await this.#changeQueue(tenantId, change)
    for (const entry of part) entry.queueChange = undefined
  }

  async #changeQueue(tenantId: TenantId, change: QueueChange): Promise<void> {
    const { pool, observer } = this.#options
    switch (change.kind) {
      case 'suspend':
        if (await suspendCallback(pool, tenantId, change.cause))
          observer.callbackSuspended(tenantId, change.cause)
        this.#suspending.delete(tenantId)
        return
      case 'open_breaker':
        if (await openBreaker(pool, tenantId, breakerOpenMs)) observer.breakerOpened(tenantId)
        return
      case 'close_breaker':
        return await closeBreaker(pool, tenantId)
      case 'release_probe':
        return await releaseProbe(pool, tenantId)
    }
  }

  #forget(entry: Uncompleted): void {
    const { eventId, tenantId } = entry.leased.delivery
    if (this.#uncompleted.get(eventId) === entry) this.#uncompleted.delete(eventId)
    if (entry.queueChange?.kind === 'suspend') this.#suspending.delete(tenantId)
  }
}

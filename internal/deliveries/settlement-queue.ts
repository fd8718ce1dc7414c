import { type BackoffBounds, backoffMs, type TenantId, within } from '#internal/base/index.ts'
import { sleep } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { closeBreaker, openBreaker, type SuspendedCause, suspendCallback } from './lane-state.ts'
import type { ForwarderObserver } from './observer.ts'
import { type Settlement, settle } from './settle.ts'

/** What an attempt's end changes for its whole lane. */
export type LaneChange =
  | { readonly kind: 'suspend'; readonly cause: SuspendedCause }
  | { readonly kind: 'open_breaker' }
  | { readonly kind: 'close_breaker' }

/** A row's end, and what it means for its lane. */
export interface Concluded extends Settlement {
  readonly laneChange?: LaneChange | undefined
}

/** What the queue works with. */
export interface SettlementQueueOptions {
  readonly pool: Pool
  readonly leaseToken: string
  readonly observer: Pick<ForwarderObserver, 'leasesLost' | 'failed' | 'breakerOpened' | 'callbackSuspended'>
}

const rowsMax = 500
/** One statement commits while the next one is gathered; a second one begins only for many rows. */
const statementsMax = 2
const secondStatementRows = 64
/**
 * Under load rows are gathered for this long since the last statement began, or for twice as long as that took, so that they
 * share a commit. At rest a row goes at once.
 */
const gatherMs = 15
const gatherMsMax = 100
/** A failed batch is tried again for about a minute; after it its leases end, and its rows are delivered again. */
const triesMax = 40
const retryWaits: BackoffBounds = { firstMs: 100, maxMs: 2_000 }
const breakerOpenMs = 30_000

/** Brings the ends of attempts into few statements. Bounded by its caller, which claims nothing while much waits. */
export class SettlementQueue {
  readonly #options: SettlementQueueOptions
  readonly #closing = new AbortController()
  #waiting: Concluded[] = []
  #underWay = 0
  #statements = 0
  #startedAtMs = Number.NEGATIVE_INFINITY
  #gatherMs = 0
  #timer: Timer | undefined
  #drained: (() => void) | undefined

  constructor(options: SettlementQueueOptions) {
    this.#options = options
  }

  /** Rows whose end is not written yet. */
  get size(): number {
    return this.#waiting.length + this.#underWay
  }

  /** Takes a row's end; it is written soon, and tried again while Postgres is away. */
  add(concluded: Concluded): void {
    this.#waiting.push(concluded)
    this.#startNext()
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
    const waitMs = many ? 0 : this.#startedAtMs + this.#gatherMs - performance.now()
    if (waitMs <= 0) return this.#start()
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined
      this.#startNext()
    }, waitMs)
  }

  #start(): void {
    const batch = this.#waiting.splice(0, rowsMax)
    const startedAtMs = performance.now()
    this.#startedAtMs = startedAtMs
    this.#statements += 1
    this.#underWay += batch.length
    void this.#writeUntilDone(batch).finally(() => {
      this.#gatherMs = Math.min(gatherMsMax, Math.max(gatherMs, 2 * (performance.now() - startedAtMs)))
      this.#statements -= 1
      this.#underWay -= batch.length
      this.#startNext()
    })
  }

  async #writeUntilDone(batch: readonly Concluded[]): Promise<void> {
    const { observer } = this.#options
    for (let failures = 0; failures < triesMax && !this.#closing.signal.aborted; ) {
      try {
        await this.#write(batch)
        return
      } catch (error) {
        observer.failed('settle', error)
        await sleep(backoffMs(failures, retryWaits, Math.random()), this.#closing.signal)
        failures += 1
      }
    }
    observer.leasesLost(batch.length)
  }

  /** Lanes first: were their change lost, an ended event would have said something that nobody heeds. */
  async #write(batch: readonly Concluded[]): Promise<void> {
    const { pool, leaseToken, observer } = this.#options
    const changes = new Map<TenantId, LaneChange>()
    for (const { delivery, laneChange } of batch) if (laneChange) changes.set(delivery.tenantId, laneChange)
    for (const [tenantId, change] of changes) await this.#changeLane(tenantId, change)
    const settled = await settle(pool, leaseToken, batch)
    if (settled.size < batch.length) observer.leasesLost(batch.length - settled.size)
  }

  async #changeLane(tenantId: TenantId, change: LaneChange): Promise<void> {
    const { pool, observer } = this.#options
    switch (change.kind) {
      case 'suspend':
        if (await suspendCallback(pool, tenantId, change.cause))
          observer.callbackSuspended(tenantId, change.cause)
        return
      case 'open_breaker':
        await openBreaker(pool, tenantId, breakerOpenMs)
        observer.breakerOpened(tenantId)
        return
      case 'close_breaker':
        await closeBreaker(pool, tenantId)
    }
  }
}

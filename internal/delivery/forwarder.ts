import { type Clock, randomToken } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import {
  type ClaimedDelivery,
  type ClaimRequest,
  claimDue,
  type DueNews,
  type Lease,
  type PausedForwarding,
  releaseLeases,
  renewLeases,
  sweepTenantQueues,
  UsualDaysTally,
  wokenMaxOf,
} from '#internal/events/index.ts'
import { type SupervisedLoop, sleep, superviseLoop } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Health, Tracing } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { Capacity, tenantDeliveriesMax } from './capacity.ts'
import { CompletionQueue } from './completion-queue.ts'
import { Deliverer } from './deliverer.ts'
import type { ForwarderObserver } from './observer.ts'
import { type OpensSecrets, PreparedTenants } from './prepared-tenant.ts'

/** What a forwarder is made of. Everything in it stays its owner's. */
export interface ForwarderOptions {
  /** Made with `queueSessionSettings`; at least 4 connections. */
  readonly pool: Pool
  readonly directory: Pick<Directory, 'findTenantById' | 'hasSnapshot'>
  readonly secrets: OpensSecrets
  readonly outbound: Outbound
  readonly tracing: Tracing
  readonly clock: Clock
  readonly observer: ForwarderObserver
  /** Where the loops show that they turn. */
  readonly health?: Health
  /** How long a claim holds unless it is renewed, default 30 s. */
  readonly leaseMs?: number
  /** What is not to be sent just now; asked for each claim and each delivery. Tell `notify` when it ends. Default: nothing. */
  readonly paused?: () => PausedForwarding
  /** Told of the tenants whose deliveries were given back, so that another process takes them at once. Must not throw. */
  readonly onReleased?: (tenantIds: readonly string[]) => void
}

/** What a forwarder holds now, for metrics. */
export interface ForwarderStats {
  /** Claimed and not answered. */
  readonly inFlight: number
  /** Answered and not written. */
  readonly uncompleted: number
}

/** What a killed process held waits so long. Renewed each sixth of it, so that five renewals in a row may fail. */
const defaultLeaseMs = 30_000
const pollMs = 1_000
const turnMsMax = 5_000
const sweepMs = 30_000
/**
 * The next claim waits for 6 ms, or for four times what the last one took beyond 1.5 ms, so that on a busy machine its cost is
 * shared by more rows. Not after one of so many rows that left some behind; and at rest a claim goes at once.
 */
const claimRowsWanted = 20
const gatherShare = 4
const quietClaimMs = 1.5
const gatherMs = 6
const gatherMsMax = 50
const claimRowsMax = 200
const claimBytesMax = 4 * 1024 * 1024
/** With less room than that, callbacks that answer in time are served apart from the others. */
const tightRoom = tenantDeliveriesMax
/** Then the others are claimed so many at a time, since a claim of one would always be for the tenant queue that waited longest. */
const tightRowsMin = 8
/** Answered deliveries whose end is not written: while Postgres is slow or refuses them nothing more is begun. */
const uncompletedMax = 2_048
const wokenMax = 500
/** Kept of the process' time for the last statements. */
const lastStatementsMs = 2_000

/**
 * Claims due deliveries, sends them and completes them, until it is stopped. Any number of them share one queue. `start` begins at
 * once and never fails; what Postgres refuses is tried again, later and later.
 */
export class Forwarder {
  readonly #options: ForwarderOptions
  readonly #lease: Lease
  readonly #capacity = new Capacity()
  readonly #completions: CompletionQueue
  readonly #deliverer: Deliverer
  readonly #usualDays: UsualDaysTally
  #woken = new Set<string>()
  /** The last claim left something behind, for want of room or because a tenant queue got its whole share. */
  #hasMore = false
  #claimedAtMs = Number.NEGATIVE_INFINITY
  #claimedRows = 0
  #gatherMs = 0
  #loops: readonly SupervisedLoop[] = []

  constructor(options: ForwarderOptions) {
    this.#options = options
    const { pool, observer, secrets, clock } = options
    this.#lease = { token: randomToken(), lengthMs: options.leaseMs ?? defaultLeaseMs }
    this.#usualDays = new UsualDaysTally(clock.now())
    this.#completions = new CompletionQueue({ pool, leaseToken: this.#lease.token, observer })
    this.#deliverer = new Deliverer({
      ...options,
      prepared: new PreparedTenants(secrets),
      capacity: this.#capacity,
      completions: this.#completions,
      onRoom: (tenantWasFull) => {
        if (tenantWasFull || this.#hasMore) this.#loops[0]?.wake()
      },
    })
  }

  /** What is under way. */
  stats(): ForwarderStats {
    return { inFlight: this.#capacity.count, uncompleted: this.#completions.size }
  }

  /** Begins; once. */
  start(): void {
    const { observer, health } = this.#options
    const loop = (name: string, intervalMs: number, runOnce: (signal: AbortSignal) => Promise<void>) =>
      superviseLoop({
        ...{ name, intervalMs, turnMsMax, runOnce },
        onError: (error) => observer.failed(stepOf(name), error),
        ...(health && { health }),
      })
    this.#loops = [
      loop('deliveries', pollMs, (signal) => this.#turn(signal)),
      loop('delivery leases', this.#lease.lengthMs / 6, () => this.#renew()),
      loop('delivery queues', sweepMs, () => this.#sweep()),
    ]
  }

  /** Says that these tenants, or any, may have work. Cheap, may be called any number of times. */
  notify(news: DueNews): void {
    if (news !== 'all') for (const id of news) if (this.#woken.size < wokenMax) this.#woken.add(id)
    this.#loops[0]?.wake()
  }

  /**
   * Claims nothing more, lets the calls under way end, writes how they ended, and gives back what was not begun. Calls that take
   * longer than `leftMs` allows are ended and given back. Repeating it is harmless; never rejects.
   */
  async stop(leftMs: number): Promise<void> {
    const deadlineMs = performance.now() + leftMs
    const callsMs = Math.max(0, leftMs - lastStatementsMs)
    const [claims, ...others] = this.#loops
    await claims?.stop()
    const unfinished = await this.#deliverer.stop(callsMs)
    await Promise.all([
      this.#completions.drain(Math.max(lastStatementsMs / 2, deadlineMs - performance.now())),
      this.#releaseLeases(unfinished),
      ...others.map((loop) => loop.stop()),
    ])
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const waitMs = this.#claimedAtMs + this.#gatherMs - performance.now()
    const isBehind = this.#hasMore && this.#claimedRows >= claimRowsWanted
    if (waitMs > 0 && !isBehind) await sleep(waitMs, signal)
    const completionsMax = Math.min(claimRowsMax, uncompletedMax - this.#completions.size)
    const isTight = this.#capacity.room < tightRoom
    this.#hasMore = isTight || completionsMax <= 0 || this.#completions.isFailing
    this.#deliverer.load()
    if (
      completionsMax <= 0 ||
      this.#completions.isFailing ||
      signal.aborted ||
      this.#options.paused?.().all ||
      !this.#options.directory.hasSnapshot()
    )
      return
    if (isTight) await this.#claimForQuick(completionsMax)
    const rowsMax = Math.min(completionsMax, this.#capacity.room)
    if (rowsMax >= (isTight ? tightRowsMin : 1)) await this.#claimForAll(rowsMax, isTight)
  }

  /**
   * Of tenants that are said to have work, those whose callbacks answer, and one delivery of those nobody has called yet. Who has
   * all it may have is kept for later.
   */
  async #claimForQuick(completionsMax: number): Promise<void> {
    const rowsMax = Math.min(completionsMax, this.#capacity.quickRoom)
    const rooms = this.#rooms()
    for (const id of this.#woken)
      if (this.#capacity.paceOf(id) === 'unknown') rooms.set(id, rooms.has(id) ? 0 : 1)
    const woken = this.#takeWoken(
      (id) => this.#capacity.paceOf(id) !== 'slow' && rooms.get(id) !== 0,
      Math.min(rowsMax, wokenMaxOf(claimRowsMax)),
    )
    if (woken.length === 0) return
    // Of a thousand that hold something, those that are asked for.
    const theirs = new Map(woken.flatMap((id) => (rooms.has(id) ? [[id, rooms.get(id) ?? 0]] : [])))
    // A tenant queue that got its whole share may have more; nobody else would tell.
    if (await this.#claim(woken, { rooms: theirs, rowsMax, wokenAlone: true })) this.notify(woken)
  }

  async #claimForAll(rowsMax: number, isTight: boolean): Promise<void> {
    const isTheirs = (id: string) => !isTight || this.#capacity.paceOf(id) !== 'quick'
    const woken = this.#takeWoken(isTheirs, wokenMaxOf(rowsMax))
    this.#hasMore = await this.#claim(woken, { rooms: this.#rooms(), rowsMax })
    if (this.#hasMore || [...this.#woken].some(isTheirs)) this.#loops[0]?.wake()
  }

  #takeWoken(isMeant: (tenantId: string) => boolean, most: number): string[] {
    const taken = [...this.#woken].filter(isMeant).slice(0, most)
    for (const id of taken) this.#woken.delete(id)
    return taken
  }

  /** True when there is more to be taken. Whom a failed claim was for is woken again. */
  async #claim(
    woken: readonly string[],
    more: Pick<ClaimRequest, 'rooms' | 'rowsMax' | 'wokenAlone'>,
  ): Promise<boolean> {
    const startedMs = performance.now()
    this.#claimedAtMs = startedMs
    this.#claimedRows = 0
    try {
      const { claimed, hasMore } = await claimDue(this.#options.pool, {
        ...more,
        lease: this.#lease,
        woken,
        queueRowsMax: tenantDeliveriesMax,
        usualDays: this.#usualDays.current,
        payloadBytesMax: this.#deliverer.isFull ? 0 : Math.min(claimBytesMax, this.#capacity.bytesRoom),
      })
      this.#claimedRows = claimed.length
      const tookMs = performance.now() - startedMs
      this.#gatherMs = Math.min(gatherMsMax, Math.max(gatherMs, gatherShare * (tookMs - quietClaimMs)))
      this.#options.observer.claimed(claimed.length, tookMs)
      const [first] = claimed
      if (first) this.#usualDays.add(first.delivery)
      // Counted from before the statement, so that the lease ends no earlier in Postgres than here.
      this.#deliverer.take(claimed, startedMs + this.#lease.lengthMs)
      return hasMore
    } catch (error) {
      for (const id of woken) this.#woken.add(id)
      throw error
    }
  }

  /**
   * A tenant that asked to be left alone gets no room, also before that is written; nor does one that is paused, or whose signing
   * secrets this process cannot open: another process may be able to.
   */
  #rooms(): Map<string, number> {
    const rooms = this.#capacity.tenantRooms()
    for (const tenantId of this.#completions.suspending) rooms.set(tenantId, 0)
    for (const tenantId of this.#options.paused?.().tenants ?? []) rooms.set(tenantId, 0)
    for (const tenantId of this.#deliverer.unreadableTenants()) rooms.set(tenantId, 0)
    return rooms
  }

  async #renew(): Promise<void> {
    const startedMs = performance.now()
    const halfMs = this.#lease.lengthMs / 2
    const old = [...this.#deliverer.held(), ...this.#completions.leased()].filter(
      ({ leaseEndsMs }) => leaseEndsMs - startedMs < halfMs,
    )
    if (old.length === 0) return
    const deliveries = old.map(({ delivery }) => delivery)
    const ours = await renewLeases(this.#options.pool, this.#lease, deliveries)
    for (const [at, leased] of old.entries()) {
      // It was taken anew meanwhile.
      if (leased.delivery !== deliveries[at]) continue
      if (ours.has(leased.delivery.eventId)) leased.leaseEndsMs = startedMs + this.#lease.lengthMs
      else this.#deliverer.drop(leased)
    }
  }

  async #sweep(): Promise<void> {
    const queues = await sweepTenantQueues(this.#options.pool)
    if (queues === 0) return
    this.#options.observer.swept(queues)
    this.#loops[0]?.wake()
  }

  async #releaseLeases(unfinished: readonly ClaimedDelivery[]): Promise<void> {
    if (unfinished.length === 0) return
    const { pool, observer, onReleased } = this.#options
    try {
      const given = await releaseLeases(pool, this.#lease.token, unfinished)
      observer.released(given.size)
      onReleased?.([...new Set(unfinished.map(({ tenantId }) => tenantId))])
    } catch (error) {
      // Their leases end by themselves.
      observer.failed('release', error)
    }
  }
}

function stepOf(loop: string): 'claim' | 'renew' | 'sweep' {
  if (loop === 'deliveries') return 'claim'
  return loop === 'delivery leases' ? 'renew' : 'sweep'
}

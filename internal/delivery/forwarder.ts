import { type Clock, randomToken, within } from '#internal/base/index.ts'
import type { Outbound } from '#internal/egress/index.ts'
import {
  type ClaimedDelivery,
  type ClaimRequest,
  callbackQueueOf,
  claimDue,
  type DeliveryId,
  type DueNews,
  decideDestinationAlerts,
  decodeDue,
  destinationOfQueue,
  dueOf,
  type Lease,
  listTroubledQueues,
  noteDestinationSignals,
  notifiedMaxOf,
  notifyForwarders,
  offersChannelFrom,
  type PausedForwarding,
  type QueueId,
  queueIdOf,
  releaseLeases,
  renewLeases,
  sweepTenantQueues,
} from '#internal/events/index.ts'
import { type SupervisedLoop, sleep, superviseLoop } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Health, Tracing } from '#internal/telemetry/index.ts'
import type { Directory, KeyRingGate, RetentionDays } from '#internal/tenants/index.ts'
import { Capacity, queueDeliveriesMax } from './capacity.ts'
import { Deliverer } from './deliverer.ts'
import { HandOffReceiver } from './hand-off-receiver.ts'
import { DestinationSignals } from './health.ts'
import { LeaseTimes, leasesToRenew } from './lease-times.ts'
import { destinationsOf, hasDestination, type OpensSecrets, PreparedTargets } from './target.ts'
import type { ForwarderObserver, ForwarderStep } from './telemetry.ts'

/** The caller closes these dependencies. */
export interface ForwarderOptions {
  /** Pool with `queueSessionSettings` and at least 6 connections. */
  readonly pool: Pool
  readonly directory: Pick<Directory, 'findTenantById' | 'hasSnapshot'>
  readonly secrets: OpensSecrets
  readonly outbound: Outbound
  readonly tracing: Tracing
  readonly clock: Clock
  readonly observer: ForwarderObserver
  readonly health?: Health
  /** Interval at which notifications of owners are decided; default 5 s. */
  readonly alertsMs?: number
  /** Minimum duration of a lease without a renewal; default 3.5 s. */
  readonly leaseMs?: number
  /** Returns the paused deliveries; called for each claim and each delivery. Call `notify` when a pause ends. Default: no pauses. */
  readonly paused?: () => PausedForwarding
  /**
   * Publishes an offer, the message by which this process offers to take events from intake. Must first subscribe `receive` to
   * `channel`, and reject if that fails. Default: no events are handed to this process.
   */
  readonly publishOffer?: (message: string, channel: string) => Promise<unknown>
  /** Retention times of the platform, for notifications. */
  readonly retentionDefaults: () => RetentionDays
  /** Called with the tenant queues whose deliveries were released, so that another process can claim them immediately. Must not throw. */
  readonly onReleased?: (queueIds: readonly QueueId[]) => void
}

/** Number of deliveries in progress, for metrics. */
export interface ForwarderStats {
  /** Claimed deliveries without a response. */
  readonly inFlight: number
  /** Deliveries whose outcome is known but not written yet. */
  readonly uncompleted: number
}

/** Interval between two checks for leases to renew, as a share of a lease. A check sends a statement only if half of a lease has passed. */
const renewCheckShare = 1 / 8
const pollMs = 1_000
const offerMs = 1_000
const turnMsMax = 5_000
const sweepMs = 30_000
/** Interval at which outcomes are written for callbacks in trouble, and notifications of their owners are decided. */
const defaultAlertsMs = 5_000
/**
 * After a claim of at least this many rows, the next one starts immediately if due rows are left. After the start of a smaller claim, it
 * waits 6 to 50 ms: four times the time by which the claim took longer than 1.5 ms. So on a busy machine, more rows share the cost of a
 * claim. An idle forwarder claims immediately.
 */
const claimRowsWanted = 20
const gatherShare = 4
const quietClaimMs = 1.5
const gatherMs = 6
const gatherMsMax = 50
const claimRowsMax = 200
/** Number of free shared places (delivery slots) below which deliveries to responsive callbacks are claimed separately. */
const tightRoom = queueDeliveriesMax
/** Minimum rows of a claim for all callbacks while few slots are free: a single row would always go to the queue with the longest wait. */
const tightRowsMin = 8
/** Above this number of unwritten outcomes, which means that Postgres is slow or unavailable, the forwarder claims nothing. */
const uncompletedMax = 2_048
const notifiedMax = 500
/** Maximum time to announce that this process accepts no more events from intake. Events that arrive later are released. */
const closeMsMax = 1_000
/** Part of the stop time that is reserved for the last statements. */
const lastStatementsMs = 2_000

/**
 * Claims, sends and completes due deliveries until stopped. Any number of forwarders share one queue. Failed statements are retried with
 * backoff.
 */
export class Forwarder {
  readonly #options: ForwarderOptions
  /** Owner of the rows that this process claims. */
  readonly #token = randomToken()
  readonly #leases: LeaseTimes
  readonly #capacity: Capacity
  readonly #signals = new DestinationSignals()
  readonly #deliverer: Deliverer
  readonly #handOffs: HandOffReceiver | undefined
  #notified = new Set<QueueId>()
  /** True if the last claim left due rows, since too few delivery slots were free or a tenant queue reached its maximum of rows. */
  #hasMore = false
  #claimedAtMs = Number.NEGATIVE_INFINITY
  #claimedRows = 0
  #gatherMs = 0
  #claimLoop: SupervisedLoop | undefined
  /** Undefined without `publishOffer`. */
  #offerLoop: SupervisedLoop | undefined
  #otherLoops: readonly SupervisedLoop[] = []

  constructor(options: ForwarderOptions) {
    this.#options = options
    this.#leases = new LeaseTimes(options.leaseMs)
    this.#capacity = new Capacity((tenantId) => {
      const tenant = options.directory.findTenantById(tenantId)
      return tenant ? destinationsOf(tenant).map((destination) => queueIdOf({ tenantId, destination })) : []
    })
    this.#deliverer = new Deliverer({
      ...options,
      prepared: new PreparedTargets(options.secrets),
      signals: this.#signals,
      capacity: this.#capacity,
      leaseToken: this.#token,
      onRoom: (queueWasFull) => {
        if (queueWasFull || this.#hasMore) this.#claimLoop?.wake()
      },
    })
    if (options.publishOffer)
      this.#handOffs = new HandOffReceiver({
        leaseToken: this.#token,
        capacity: this.#capacity,
        deliverer: this.#deliverer,
        publishOffer: options.publishOffer,
        leaseMs: () => this.#leases.lengthMs,
        refused: () => this.#refused(),
        release: (deliveries) => this.#release(deliveries),
        onAccepted: (count) => options.observer.handed(count),
        onFull: () => this.#offerLoop?.wake(),
      })
  }

  stats(): ForwarderStats {
    return { inFlight: this.#capacity.count, uncompleted: this.#deliverer.completions.size }
  }

  /** Redis channel of events that are handed to this process; undefined without `publishOffer`. */
  get handOffChannel(): string | undefined {
    return this.#handOffs?.channel
  }

  /** Starts the deliveries of a message of `handOffChannel`. */
  receive(message: string): void {
    this.#handOffs?.receive(message)
  }

  /** Starts the loops. Call it only once. */
  start(): void {
    const { observer, health } = this.#options
    const renewCheckMs = this.#leases.leastMs * renewCheckShare
    const loop = (
      step: ForwarderStep,
      name: string,
      intervalMs: number,
      runOnce: (signal: AbortSignal) => Promise<void>,
    ) =>
      superviseLoop({
        name,
        intervalMs,
        turnMsMax,
        runOnce,
        onError: (error) => observer.failed(step, error),
        // Repeats a failed renewal soon, since leases would have ended after a longer wait.
        ...(step === 'renew' && { backoff: { firstMs: renewCheckMs, maxMs: renewCheckMs } }),
        ...(health && { health }),
      })
    this.#claimLoop = loop('claim', 'deliveries', pollMs, (signal) => this.#turn(signal))
    this.#otherLoops = [
      loop('renew', 'delivery leases', renewCheckMs, () => this.#renew()),
      loop('sweep', 'tenant queues', sweepMs, () => this.#sweep()),
      loop('alerts', 'notifications of owners', this.#options.alertsMs ?? defaultAlertsMs, () =>
        this.#decideAlerts(),
      ),
    ]
    const handOffs = this.#handOffs
    if (handOffs) this.#offerLoop = loop('offer', 'offers of deliveries', offerMs, () => handOffs.offer())
  }

  /** Notifies the forwarder that these tenants, or any tenant, may have work. Cheap and safe to repeat. */
  notify(news: DueNews): void {
    // Omits tenants without a callback: they read their feed and have no deliveries to claim.
    const called = news === 'all' ? [] : news.filter((id) => this.#hasDeliveries(id))
    for (const id of called) if (this.#notified.size < notifiedMax) this.#notified.add(id)
    if (news === 'all' || called.length > 0) this.#claimLoop?.wake()
  }

  /**
   * Claims nothing more, completes the calls in progress, and releases deliveries that were not started. Aborts calls that take longer than
   * `leftMs` allows and releases their deliveries. Safe to repeat; never rejects.
   */
  async stop(leftMs: number): Promise<void> {
    const deadlineMs = performance.now() + leftMs
    if (this.#handOffs) await within(closeMsMax, this.#handOffs.close(), () => undefined)
    await this.#claimLoop?.stop()
    const callsMs = Math.max(0, deadlineMs - performance.now() - lastStatementsMs)
    const unfinished = await this.#deliverer.stop(callsMs)
    await Promise.all([
      this.#deliverer.completions.drain(Math.max(lastStatementsMs / 2, deadlineMs - performance.now())),
      this.#release(unfinished),
      this.#offerLoop?.stop(),
      ...this.#otherLoops.map((loop) => loop.stop()),
    ])
    await this.#handOffs?.released(Math.max(lastStatementsMs / 2, deadlineMs - performance.now()))
  }

  async #turn(signal: AbortSignal): Promise<void> {
    const { paused, directory } = this.#options
    const { completions } = this.#deliverer
    const waitMs = this.#claimedAtMs + this.#gatherMs - performance.now()
    const isBehind = this.#hasMore && this.#claimedRows >= claimRowsWanted
    if (waitMs > 0 && !isBehind) await sleep(waitMs, signal)
    const completionsMax = Math.min(claimRowsMax, uncompletedMax - completions.size)
    const isBackedUp = completionsMax <= 0 || completions.isFailing
    if (completions.isFailing) this.#leases.troubled(performance.now())
    const isTight = this.#capacity.room < tightRoom
    this.#hasMore = isTight || isBackedUp
    this.#deliverer.load()
    if (isBackedUp || signal.aborted || paused?.().all || !directory.hasSnapshot()) return
    if (isTight) await this.#claimForResponsive(completionsMax)
    const rowsMax = Math.min(completionsMax, this.#capacity.room)
    if (rowsMax >= (isTight ? tightRowsMin : 1)) await this.#claimForAll(rowsMax, isTight)
  }

  /**
   * Claims deliveries of notified tenants whose callbacks are responsive, and one delivery for each callback that this process has not
   * called yet. Tenants without free delivery slots stay in the set of notified tenants.
   */
  async #claimForResponsive(completionsMax: number): Promise<void> {
    const rowsMax = Math.min(completionsMax, this.#capacity.reservedRoom)
    const rooms = this.#rooms()
    for (const id of this.#notified)
      if (this.#capacity.responsivenessOf(id) === 'unknown') rooms.set(id, rooms.has(id) ? 0 : 1)
    const notified = this.#takeNotified(
      (id) => this.#capacity.responsivenessOf(id) !== 'unresponsive' && rooms.get(id) !== 0,
      Math.min(rowsMax, notifiedMaxOf(claimRowsMax)),
    )
    if (notified.length === 0) return
    // Passes the free places of only these tenants to the statement, since up to a thousand tenants can have deliveries in progress.
    const theirs = new Map(
      notified.flatMap((id) => (rooms.has(id) ? [[id, rooms.get(id) ?? 0] as const] : [])),
    )
    // Keeps these tenants notified: a queue that reached its maximum of rows can have more, without another notification.
    if (await this.#claim(notified, { rooms: theirs, rowsMax, notifiedAlone: true })) this.notify(notified)
  }

  async #claimForAll(rowsMax: number, isTight: boolean): Promise<void> {
    const isServed = (id: QueueId) => !isTight || this.#capacity.responsivenessOf(id) !== 'responsive'
    const notified = this.#takeNotified(isServed, notifiedMaxOf(rowsMax))
    this.#hasMore = await this.#claim(notified, { rooms: this.#rooms(), rowsMax })
    if (this.#hasMore || [...this.#notified].some(isServed)) this.#claimLoop?.wake()
  }

  #takeNotified(isMeant: (queueId: QueueId) => boolean, most: number): QueueId[] {
    const taken = [...this.#notified].filter(isMeant).slice(0, most)
    for (const id of taken) this.#notified.delete(id)
    return taken
  }

  /** Returns whether more rows can be claimed. After a failure, the notified tenants of the claim stay notified. */
  async #claim(
    notified: readonly QueueId[],
    more: Pick<ClaimRequest, 'rooms' | 'rowsMax' | 'notifiedAlone'>,
  ): Promise<boolean> {
    const startedMs = performance.now()
    this.#claimedAtMs = startedMs
    this.#claimedRows = 0
    const lease = { token: this.#token, lengthMs: this.#leases.lengthMs }
    const graceMs = this.#leases.graceMs(startedMs)
    const sentAtMs = this.#leases.postgresMs(startedMs)
    try {
      const request = { ...more, lease, graceMs, sentAtMs, notified, queueRowsMax: queueDeliveriesMax }
      const { claimed, hasMore, ranAtMs } = await claimDue(this.#options.pool, request)
      this.#leases.succeeded(startedMs, performance.now())
      if (ranAtMs !== undefined) this.#leases.seen(ranAtMs, performance.now())
      this.#claimedRows = claimed.length
      const tookMs = performance.now() - startedMs
      this.#gatherMs = Math.min(gatherMsMax, Math.max(gatherMs, gatherShare * (tookMs - quietClaimMs)))
      this.#options.observer.claimed(claimed.length)
      // The lease counts from the start of the statement here, so that it does not expire earlier in Postgres than in this process.
      this.#deliverer.take(claimed, startedMs + lease.lengthMs)
      return hasMore
    } catch (error) {
      this.#leases.failed(startedMs, performance.now())
      for (const id of notified) this.#notified.add(id)
      throw error
    }
  }

  /**
   * Returns the maximum rows per tenant queue. It is 0 for the callback of a paused tenant, for a destination that asked for a suspension
   * (even before the suspension is written), and for a tenant whose signing secrets only other processes may be able to decrypt.
   */
  #rooms(): Map<QueueId, number> {
    const rooms = this.#capacity.queueRooms()
    for (const queueId of this.#deliverer.completions.suspending) rooms.set(queueId, 0)
    for (const tenantId of this.#options.paused?.().tenants ?? []) rooms.set(callbackQueueOf(tenantId), 0)
    for (const queueId of this.#deliverer.unreadableQueues()) rooms.set(queueId, 0)
    return rooms
  }

  /** Returns the tenant queues whose events this process does not accept from intake; `all` while it claims nothing. */
  #refused(): ReadonlySet<QueueId> | 'all' {
    const { paused, directory } = this.#options
    const { completions } = this.#deliverer
    const isBackedUp = completions.size >= uncompletedMax / 2 || completions.isFailing
    if (isBackedUp || paused?.().all || !directory.hasSnapshot()) return 'all'
    const refused = new Set<QueueId>()
    for (const [queueId, room] of this.#rooms()) if (room === 0) refused.add(queueId)
    return refused
  }

  async #renew(): Promise<void> {
    const startedMs = performance.now()
    const lease = { token: this.#token, lengthMs: this.#leases.lengthMs }
    const old = leasesToRenew(this.#deliverer.deliveries(), { nowMs: startedMs, ...lease }).map(
      (delivery) => ({ delivery, claim: delivery.claim }),
    )
    if (old.length === 0) return
    const renewed = await this.#renewClaims(
      lease,
      old.map(({ claim }) => claim),
      startedMs,
    )
    for (const { delivery, claim } of old) {
      if (renewed.has(delivery.id)) delivery.renewed(claim, startedMs + lease.lengthMs)
      else if (delivery.claim === claim) this.#deliverer.drop(delivery)
    }
  }

  async #renewClaims(
    lease: Lease,
    claims: readonly ClaimedDelivery[],
    startedMs: number,
  ): Promise<ReadonlySet<DeliveryId>> {
    try {
      const renewed = await renewLeases(this.#options.pool, lease, claims)
      this.#leases.succeeded(startedMs, performance.now())
      return renewed
    } catch (error) {
      this.#leases.failed(startedMs, performance.now())
      throw error
    }
  }

  async #sweep(): Promise<void> {
    const queues = await sweepTenantQueues(this.#options.pool)
    if (queues === 0) return
    this.#options.observer.swept(queues)
    this.#claimLoop?.wake()
  }

  /** Writes attempts of callbacks in trouble, then decides about notifications. Any number of processes share the decisions. */
  async #decideAlerts(): Promise<void> {
    const { pool, clock, observer, directory, retentionDefaults } = this.#options
    const taken = this.#signals.take()
    try {
      await noteDestinationSignals(pool, taken)
    } catch (error) {
      this.#signals.giveBack(taken)
      throw error
    }
    this.#signals.setTroubled(await listTroubledQueues(pool))
    if (!directory.hasSnapshot()) return
    const onNotified = observer.ownerNotified.bind(observer)
    const queues = await decideDestinationAlerts(
      { pool, directory, retentionDefaults, onNotified },
      clock.now(),
    )
    if (queues.length > 0) this.notify(queues)
  }

  /** Returns true also for an unknown tenant, because the directory can lack a new tenant for some seconds. */
  #hasDeliveries(queueId: QueueId): boolean {
    const { tenantId, destination } = destinationOfQueue(queueId)
    const tenant = this.#options.directory.findTenantById(tenantId)
    return tenant === undefined || hasDestination(tenant, destination)
  }

  /** Releases leases. Never rejects: leases that cannot be released expire. */
  async #release(unfinished: readonly ClaimedDelivery[]): Promise<void> {
    if (unfinished.length === 0) return
    const { pool, observer, onReleased } = this.#options
    try {
      const released = await releaseLeases(pool, this.#token, unfinished)
      observer.released(released.size)
      onReleased?.([...new Set(unfinished.map(queueIdOf))])
    } catch (error) {
      observer.failed('release', error)
    }
  }
}

/** The caller closes these dependencies. */
export interface ForwarderParts
  extends Pick<
    ForwarderOptions,
    'pool' | 'directory' | 'secrets' | 'outbound' | 'tracing' | 'health' | 'clock' | 'observer'
  > {
  readonly redis: RedisConnection
  readonly settings: SettingsWatch
  readonly keyRingGate: KeyRingGate
}

const allPaused: PausedForwarding = { all: true, tenants: new Set() }

/**
 * Creates the forwarder of a process, which the caller starts and stops. It claims again when settings change and when the key ring is
 * verified. Pass each message of `dueChannel` to `receiveDue`; if a message is lost, the forwarder finds the due deliveries by polling.
 */
export function createForwarder({ redis, settings, keyRingGate, ...parts }: ForwarderParts): {
  readonly forwarder: Forwarder
  receiveDue(message: string): void
} {
  const offersChannel = offersChannelFrom(parts.pool)
  const receive = (message: string) => forwarder.receive(message)
  // All deliveries pause until the key ring is verified, because a process with a wrong key ring cannot sign deliveries.
  const findPaused = () => (keyRingGate.isOpen ? pausedBy(settings) : allPaused)
  let paused = findPaused()
  const forwarder: Forwarder = new Forwarder({
    ...parts,
    paused: () => paused,
    retentionDefaults: () => settings.current.retention,
    // Subscribes before each offer, which sends a command only after a reconnect. Events of a lost message are claimed after their lease.
    publishOffer: async (message, channel) => {
      await redis.subscribe(channel, receive)
      await redis.publish(await offersChannel(), message)
    },
    onReleased: (queueIds) => void notifyForwarders(redis, queueIds).catch(() => undefined),
  })
  const changed = () => {
    paused = findPaused()
    forwarder.notify('all')
  }
  settings.onChange(changed)
  void keyRingGate.opened.then(changed)
  return { forwarder, receiveDue: (message) => forwarder.notify(dueOf(decodeDue(message))) }
}

/** Returns which deliveries are paused. All are paused until the settings have been read once. */
export function pausedBy({ isRead, current }: SettingsWatch): PausedForwarding {
  return { all: !isRead || current.isForwardingPaused, tenants: current.forwardingPausedFor }
}

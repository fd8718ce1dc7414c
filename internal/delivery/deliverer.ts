import { type Clock, within } from '#internal/base/index.ts'
import {
  type ClaimedDelivery,
  carriesEvents,
  type DeliveryId,
  deliveryIdOf,
  destinationOfQueue,
  type Ending,
  type EventContent,
  type LoadedEvent,
  type PausedForwarding,
  type QueueId,
  queueIdOf,
} from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory, DirectoryTenant } from '#internal/tenants/index.ts'
import type { Capacity } from './capacity.ts'
import { CompletionQueue } from './completion-queue.ts'
import {
  type AttemptEnding,
  type AttemptResult,
  attemptOf,
  callSucceeded,
  concludeAttempt,
  concludeWithoutPayload,
  jitteredMs,
  type MadeCall,
  type NotSentCause,
  type QueueChange,
} from './decide.ts'
import { Delivery } from './delivery.ts'
import { CallbackHealth, type DestinationSignals } from './health.ts'
import { Loader } from './loader.ts'
import { type PreparedTarget, type PreparedTargets, type SendParts, sendDelivery } from './target.ts'
import type { AttemptReport, ForwarderObserver } from './telemetry.ts'

export interface DelivererOptions extends SendParts {
  readonly pool: Pool
  readonly clock: Clock
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly prepared: PreparedTargets
  readonly capacity: Capacity
  readonly leaseToken: string
  readonly signals: DestinationSignals
  readonly observer: ForwarderObserver
  readonly paused?: () => PausedForwarding
  /** Called when a delivery releases its slot. `queueWasFull`: before that, the tenant queue of the delivery had no free slot. */
  readonly onRoom: (queueWasFull: boolean) => void
}

type Plan =
  | { readonly kind: 'send'; readonly target: PreparedTarget }
  | { readonly kind: 'snooze'; readonly byMs: number }
  | { readonly kind: 'not_sent'; readonly cause: NotSentCause; readonly target: PreparedTarget }

/** Maximum claims of a delivery without a completion. A delivery with more is a poison message: its attempt fails without a call. */
const claimsMax = 5
/** Snooze of deliveries of an unknown tenant. By its end, the tenant directory of this process contains a tenant that was just created. */
const unknownTenantMs = 5_000
/** Snooze of deliveries whose tenant is suspended or has no callback. */
const suspendedTenantMs = 10_000
/** Snooze of deliveries that were claimed before this process found that it cannot decrypt the tenant's signing secrets. */
const unreadableTenantMs = 10_000
/** Maximum tenant queues excluded from claims for undecryptable secrets. Deliveries of further queues are claimed and snoozed repeatedly. */
const unreadableQueuesMax = 256
/** Snooze of deliveries that were claimed just before their tenant was paused. Later claims exclude the tenant. */
const pausedMs = 1_000
/** Number of the attempt from which a failure signals trouble, even if the callback has too few attempts to open its circuit breaker. */
const alarmingAttempt = 3

/** Loads, sends, concludes and completes claimed deliveries within `Capacity`. */
export class Deliverer {
  readonly completions: CompletionQueue
  readonly #options: DelivererOptions
  readonly #loader: Loader
  readonly #health = new CallbackHealth()
  /** Deliveries from their claim until they are completed, released or lost. */
  readonly #deliveries = new Map<DeliveryId, Delivery>()
  readonly #unreadable = new Map<QueueId, DirectoryTenant>()
  readonly #aborting = new AbortController()
  readonly #released: ClaimedDelivery[] = []
  readonly #sends = new Set<Promise<void>>()
  #stopped = false

  constructor(options: DelivererOptions) {
    this.#options = options
    const { pool, leaseToken, observer, clock } = options
    this.completions = new CompletionQueue({
      pool,
      leaseToken,
      observer,
      clock,
      onEnded: (delivery) => this.#forget(delivery),
    })
    this.#loader = new Loader({
      ...options,
      onLoaded: (delivery, event) => this.#continue(delivery, event),
      onFailed: (delivery) => {
        this.#giveBytes(delivery)
        if (this.#stopped) this.#release(delivery)
        else this.#snooze(delivery, unknownTenantMs)
      },
      onLost: (delivery) => this.#lose(delivery),
    })
  }

  /** Returns the deliveries whose leases must be renewed. */
  deliveries(): Iterable<Delivery> {
    return this.#deliveries.values()
  }

  /** Starts claimed deliveries. After `stop`, releases them instead. */
  take(claimed: readonly ClaimedDelivery[], leaseEndsMs: number): void {
    for (const claim of claimed) {
      // After a lease expired, this process can claim a delivery again on which it still works. It then continues, and does not send twice.
      if (this.#deliveries.get(deliveryIdOf(claim))?.adopt(claim, leaseEndsMs)) continue
      this.#start(claim, leaseEndsMs)
    }
    this.load()
  }

  /**
   * Starts a delivery that intake handed over with its event. If payload memory is free, the event is not read again. Returns false if the
   * tenant has no free slot; the caller must then release the delivery. Ignores a delivery in progress.
   */
  takeHanded(claim: ClaimedDelivery, content: EventContent, leaseEndsMs: number): boolean {
    if (this.#deliveries.has(deliveryIdOf(claim))) return true
    const { capacity } = this.#options
    const queueId = queueIdOf(claim)
    if (capacity.room === 0 || capacity.roomOf(claim.tenantId, queueId) === 0) return false
    this.#start(claim, leaseEndsMs, content)
    this.load()
    return true
  }

  /** Returns at most 256 tenant queues whose signing secrets this process could not decrypt. A queue is removed when its tenant changes. */
  unreadableQueues(): readonly QueueId[] {
    const { directory } = this.#options
    for (const [id, tenant] of this.#unreadable)
      if (directory.findTenantById(destinationOfQueue(id).tenantId) !== tenant) this.#unreadable.delete(id)
    return [...this.#unreadable.keys()]
  }

  /** Loads deliveries that wait for payload memory. Call it when memory may have been released. */
  load(): void {
    this.#loader.load()
  }

  /** Drops a waiting delivery whose lease another process has taken. Does not interrupt a call in progress. */
  drop(delivery: Delivery): void {
    if (this.#loader.remove(delivery)) this.#lose(delivery)
  }

  /** Starts nothing more, and aborts calls after `msMax`. Returns deliveries to release: those not started and those without a response. */
  async stop(msMax: number): Promise<readonly ClaimedDelivery[]> {
    this.#stopped = true
    const startedMs = performance.now()
    for (const delivery of await this.#loader.stop(msMax)) this.#release(delivery)
    const ended = Promise.all(this.#sends)
    const leftMs = Math.max(0, startedMs + msMax - performance.now())
    await within<unknown>(leftMs, ended, () => this.#aborting.abort())
    await ended
    return this.#released
  }

  /** @param content event that was handed over; it is sent immediately unless other deliveries wait for payload memory */
  #start(claim: ClaimedDelivery, leaseEndsMs: number, content?: EventContent): void {
    const { capacity } = this.#options
    const queueId = queueIdOf(claim)
    const delivery = new Delivery(claim, leaseEndsMs, capacity.take(claim.tenantId, queueId))
    this.#deliveries.set(delivery.id, delivery)
    if (this.#stopped) return this.#release(delivery)
    if (!claim.isProbe) this.#health.seenClosed(queueId, this.#now())
    const plan = this.#planOf(delivery)
    if (plan.kind === 'snooze') return this.#snooze(delivery, plan.byMs)
    if (plan.kind === 'not_sent') {
      const { target, cause } = plan
      const result = { kind: 'not_sent', cause, durationMs: 0 } as const
      return this.#concludeAttempt(delivery, target, { result, startedAtMs: this.#now() })
    }
    if (
      content === undefined ||
      !this.#loader.isIdle ||
      !capacity.takeBytes(claim.payloadBytes, claim.tenantId)
    )
      return this.#loader.add(delivery)
    delivery.payloadBytesHeld = claim.payloadBytes
    delivery.to('loading')
    this.#begin(delivery, content, plan.target)
  }

  #planOf({ claim, queueId }: Delivery): Plan {
    const { directory, prepared, observer } = this.#options
    const found = directory.findTenantById(claim.tenantId)
    if (found === undefined) return { kind: 'snooze', byMs: unknownTenantMs }
    const target = prepared.of(found, claim.destination)
    if (found.suspended || target === undefined || this.completions.suspending.has(queueId))
      return { kind: 'snooze', byMs: suspendedTenantMs }
    const paused = this.#options.paused?.()
    if (paused?.all || (carriesEvents(claim.destination) && paused?.tenants.has(claim.tenantId)))
      return { kind: 'snooze', byMs: pausedMs }
    if (target.isUnreadable) {
      if (this.#unreadable.size < unreadableQueuesMax) this.#unreadable.set(queueId, found)
      return { kind: 'snooze', byMs: unreadableTenantMs }
    }
    if (claim.claims > claimsMax) return { kind: 'not_sent', target, cause: 'worker_lost' }
    const { waitsMs, jitterPercent } = target.schedule
    const firstWaitMs = waitsMs[0] ?? 0
    if (claim.attempts === 0 && !claim.isRetry && firstWaitMs > 0)
      return { kind: 'snooze', byMs: jitteredMs(firstWaitMs, jitterPercent, Math.random()) }
    if (target.isSendable) return { kind: 'send', target }
    observer.signingUnavailable(claim.tenantId)
    return { kind: 'not_sent', target, cause: 'signing_unavailable' }
  }

  /** Decides again whether to send, since during loading the tenant can change and the lease can expire. */
  #continue(delivery: Delivery, loaded: LoadedEvent | undefined): void {
    if (performance.now() >= delivery.leaseEndsMs) {
      this.#giveBytes(delivery)
      return this.#stopped ? this.#release(delivery) : this.#lose(delivery)
    }
    const plan = this.#planOf(delivery)
    if (loaded?.kind === 'whole' && plan.kind === 'send' && !this.#stopped)
      return this.#begin(delivery, loaded.content, plan.target)
    this.#giveBytes(delivery)
    if (this.#stopped) return this.#release(delivery)
    if (loaded === undefined) return this.#conclude(delivery, { kind: 'expired' })
    if (loaded.kind === 'whole')
      return this.#snooze(delivery, plan.kind === 'snooze' ? plan.byMs : unknownTenantMs)
    const ending = concludeWithoutPayload(this.#now())
    const { claim } = delivery
    const tenant = this.#options.directory.findTenantById(claim.tenantId)
    const destinationKind = tenant && this.#options.prepared.of(tenant, claim.destination)?.kind
    this.#report(delivery, { ending, destinationKind, content: undefined })
    this.#conclude(delivery, ending)
  }

  #begin(delivery: Delivery, content: EventContent, target: PreparedTarget): void {
    const send = this.#send(delivery, content, target).finally(() => this.#sends.delete(send))
    this.#sends.add(send)
  }

  async #send(delivery: Delivery, content: EventContent, target: PreparedTarget): Promise<void> {
    delivery.to('sending')
    const startedAtMs = this.#now()
    const { signal } = this.#aborting
    const { result, request } = await this.#sendSafely(target, { content, signal, nowMs: startedAtMs })
    delivery.wasCalled = true
    this.#giveBytes(delivery)
    if (result.kind === 'failed' && result.cause === 'aborted') this.#release(delivery)
    else this.#concludeAttempt(delivery, target, { result, request, startedAtMs }, content)
    this.load()
  }

  /** Turns an exception into a failed attempt, so that a bug with one event does not stop the process and all its deliveries. */
  async #sendSafely(
    target: PreparedTarget,
    sending: Parameters<typeof sendDelivery>[2],
  ): Promise<Omit<MadeCall, 'startedAtMs'>> {
    const startedMs = performance.now()
    try {
      return await sendDelivery(this.#options, target, sending)
    } catch (error) {
      this.#options.observer.failed('send', error)
      const durationMs = performance.now() - startedMs
      return { result: { kind: 'not_sent', cause: 'internal_error', durationMs } }
    }
  }

  #concludeAttempt(
    delivery: Delivery,
    { schedule, kind }: PreparedTarget,
    call: MadeCall,
    content?: EventContent,
  ): void {
    const { claim } = delivery
    const { ending, suspends } = concludeAttempt({
      attempt: attemptOf(call),
      result: call.result,
      attemptsBefore: claim.attempts,
      schedule,
      random: Math.random(),
      nowMs: this.#now(),
    })
    const queueChange: QueueChange | undefined = suspends
      ? { kind: 'suspend', cause: suspends }
      : this.#breakerChange(delivery, call.result)
    this.#noteSignal(delivery, { result: call.result, ending, opens: queueChange?.kind === 'open_breaker' })
    this.#report(delivery, { ending, destinationKind: kind, content })
    this.#conclude(delivery, ending, queueChange)
  }

  #report(
    { claim }: Delivery,
    { content, ending, destinationKind }: Pick<AttemptReport, 'content' | 'ending' | 'destinationKind'>,
  ): void {
    const isFirst = claim.attempts === 0 && claim.cycle === 1 && content !== undefined
    const delayMs = isFirst ? ending.attempt.startedAtMs - content.receivedAtMs : undefined
    this.#options.observer.attempted({ delivery: claim, destinationKind, content, ending, delayMs })
  }

  /** Records an attempt of an event. Attempts of notifications do not count, so that they cause no further notifications. */
  #noteSignal(
    { claim, queueId }: Delivery,
    { result, ending, opens }: { result: AttemptResult; ending: AttemptEnding; opens: boolean },
  ): void {
    const succeeded = callSucceeded(result)
    if (!carriesEvents(claim.destination) || succeeded === undefined) return
    const nowMs = this.#now()
    const isLate = claim.attempts + 1 >= alarmingAttempt || ending.attempt.cause === 'attempts_exhausted'
    this.#options.signals.record(claim, {
      succeeded,
      nowMs,
      cause: causeOf(result),
      isAlarm: !succeeded && (opens || (isLate && this.#health.isMostlyFailing(queueId, nowMs))),
    })
  }

  #breakerChange({ claim, queueId }: Delivery, result: AttemptResult): QueueChange | undefined {
    const { isProbe } = claim
    const succeeded = callSucceeded(result)
    if (succeeded === undefined) return undefined
    const opens = this.#health.record(queueId, succeeded, this.#now())
    if (isProbe && succeeded) {
      this.#health.reset(queueId)
      return { kind: 'close_breaker' }
    }
    if (!opens && !isProbe) return undefined
    this.#health.opened(queueId, this.#now())
    this.#options.capacity.holdBack(queueId)
    return { kind: 'open_breaker' }
  }

  #snooze(delivery: Delivery, byMs: number): void {
    this.#conclude(delivery, { kind: 'snoozed', dueAtMs: this.#now() + byMs })
  }

  /** Releases the place; the lease is renewed until the outcome is written. If a probe was not sent, allows another one. */
  #conclude(delivery: Delivery, ending: Ending, queueChange?: QueueChange): void {
    const unsent = delivery.claim.isProbe ? ({ kind: 'release_probe' } as const) : undefined
    this.completions.add(delivery, ending, queueChange ?? unsent)
    this.#givePlace(delivery)
  }

  #release(delivery: Delivery): void {
    delivery.to('released')
    this.#released.push(delivery.claim)
    this.#forget(delivery)
    this.#givePlace(delivery)
  }

  #lose(delivery: Delivery): void {
    delivery.to('lost')
    this.#options.observer.leasesLost(1)
    this.#forget(delivery)
    this.#givePlace(delivery)
  }

  #forget(delivery: Delivery): void {
    if (this.#deliveries.get(delivery.id) === delivery) this.#deliveries.delete(delivery.id)
  }

  #givePlace(delivery: Delivery): void {
    this.#options.onRoom(this.#options.capacity.give(delivery.place, delivery.wasCalled))
  }

  #giveBytes(delivery: Delivery): void {
    if (delivery.payloadBytesHeld === undefined) return
    this.#options.capacity.giveBytes(delivery.payloadBytesHeld, delivery.place.tenantId)
    delivery.payloadBytesHeld = undefined
  }

  #now(): number {
    return this.#options.clock.now()
  }
}

function causeOf(result: AttemptResult): string {
  return result.kind === 'answered' ? `http_${result.status}` : result.cause
}

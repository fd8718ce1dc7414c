import type { Clock, EventId, TenantId } from '#internal/base/index.ts'
import type {
  Claimed,
  ClaimedDelivery,
  Ending,
  EventContent,
  Leased,
  LoadedEvent,
  PausedForwarding,
} from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory, DirectoryTenant } from '#internal/tenants/index.ts'
import { CallbackHealth } from './breaker.ts'
import type { Capacity } from './capacity.ts'
import type { CompletionQueue } from './completion-queue.ts'
import { type AttemptResult, callbackDidWell, concludeAttempt, concludeWithoutPayload } from './conclude.ts'
import { jitteredMs } from './decide-next.ts'
import { type Held, Loader } from './loader.ts'
import type { ForwarderObserver } from './observer.ts'
import type { PreparedTenant, PreparedTenants } from './prepared-tenant.ts'
import type { QueueChange } from './queue-change.ts'
import { type Sending, type SendParts, sendDelivery } from './send.ts'

/** What deliveries are brought to their end with. */
export interface DelivererOptions extends SendParts {
  readonly pool: Pool
  readonly clock: Clock
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly prepared: PreparedTenants
  readonly capacity: Capacity
  readonly completions: CompletionQueue
  readonly observer: ForwarderObserver
  readonly paused?: () => PausedForwarding
  /** Told that a delivery has ended, and whether its tenant had all that it may have until then. */
  readonly onRoom: (tenantWasFull: boolean) => void
}

type Plan =
  | { readonly kind: 'send'; readonly tenant: PreparedTenant }
  | { readonly kind: 'snoozed'; readonly byMs: number }
  | { readonly kind: 'not_sent'; readonly result: AttemptResult; readonly tenant: PreparedTenant }

/** A taking that was not completed may have been a worker's end; after so many, the delivery is taken to be the cause. */
const claimsMax = 5
/** The directory of this process may be behind by a poll. */
const unknownTenantMs = 5_000
const suspendedTenantMs = 10_000
/** Claimed before this process knew that it cannot open the tenant's signing secrets. */
const unreadableTenantMs = 10_000
/** Each claim names them in its statement; deliveries of further ones are claimed and snoozed again and again. */
const unreadableTenantsMax = 256
/** Claimed just before the pause: a claim leaves it alone from now on. */
const pausedMs = 1_000

/** Brings claimed deliveries to their end: loads, sends, concludes. Holds what `Capacity` says and no more. */
export class Deliverer {
  readonly #options: DelivererOptions
  readonly #loader: Loader
  readonly #health = new CallbackHealth()
  readonly #held = new Map<EventId, Held>()
  readonly #unreadable = new Map<TenantId, DirectoryTenant>()
  readonly #aborting = new AbortController()
  #stopped = false
  #calls = 0
  #callsEnded: (() => void) | undefined
  readonly #unfinished: ClaimedDelivery[] = []

  constructor(options: DelivererOptions) {
    this.#options = options
    this.#loader = new Loader({
      ...options,
      onLoaded: (held, event) => this.#continue(held, event),
      // They are due again soon, here or elsewhere.
      onFailed: (held) => (this.#stopped ? this.#keep(held) : this.#snooze(held, unknownTenantMs)),
      onLost: (lost) => {
        for (const held of lost) this.#release(held)
        options.observer.leasesLost(lost.length)
      },
    })
  }

  /** Everything between claim and answer. */
  held(): Iterable<Leased> {
    return this.#held.values()
  }

  /** A delivery waits until there is memory for its texts, so that nobody else is to bring some along. */
  get isFull(): boolean {
    return this.#loader.isFull
  }

  /** Begins deliveries that were claimed just now. After `stop` they are kept to be given back. */
  take(claimed: readonly Claimed[], leaseEndsMs: number): void {
    for (const { delivery, content } of claimed) {
      const leased = { delivery, leaseEndsMs }
      if (!this.#adopt(leased)) this.#begin(leased, content)
    }
    this.load()
  }

  /** Tenants whose signing secrets this process could not open, until they change. At most 256. */
  unreadableTenants(): readonly TenantId[] {
    const { directory } = this.#options
    for (const [id, tenant] of this.#unreadable)
      if (directory.findTenantById(id) !== tenant) this.#unreadable.delete(id)
    return [...this.#unreadable.keys()]
  }

  /** Reads the events that had no room so far. Called whenever there may be some. */
  load(): void {
    this.#loader.load()
  }

  /** Lets go of a delivery that others have taken over; a call under way goes on. */
  drop(leased: Leased): void {
    if (this.#loader.remove(leased)) this.#release(leased)
  }

  /**
   * Begins nothing more, waits for the calls under way, and ends them after `msMax`. Gives what is to be given back: what was
   * not begun or not ended by its callback.
   */
  async stop(msMax: number): Promise<readonly ClaimedDelivery[]> {
    this.#stopped = true
    const startedMs = performance.now()
    for (const held of await this.#loader.stop(msMax)) this.#keep(held)
    if (this.#calls > 0) {
      const ended = new Promise<void>((resolve) => {
        this.#callsEnded = resolve
      })
      const leftMs = Math.max(0, startedMs + msMax - performance.now())
      const timer = setTimeout(() => this.#aborting.abort(), leftMs)
      await ended
      clearTimeout(timer)
    }
    return this.#unfinished
  }

  /** What came back to us while its call goes on, or its end is being written, goes on under its new claim and is not sent twice. */
  #adopt(leased: Leased): boolean {
    const held = this.#held.get(leased.delivery.eventId)
    if (held === undefined) return this.#options.completions.adopt(leased)
    Object.assign(held, leased)
    return true
  }

  #begin(leased: Leased, content: EventContent | undefined): void {
    const { delivery } = leased
    const place = this.#options.capacity.take(delivery.tenantId)
    const held: Held = { ...leased, place, bytes: undefined, wasCalled: false }
    this.#held.set(delivery.eventId, held)
    if (this.#stopped) return this.#keep(held)
    if (!delivery.isProbe) this.#health.seenClosed(delivery.tenantId, this.#now())
    const plan = this.#planOf(delivery)
    if (plan.kind === 'snoozed') return this.#snooze(held, plan.byMs)
    if (plan.kind === 'not_sent')
      return this.#conclude(held, undefined, { ...plan, startedAtMs: this.#now() })
    if (content !== undefined && this.#loader.takeBytes(held)) void this.#send(held, content, plan.tenant)
    else this.#loader.add(held)
  }

  #planOf(delivery: ClaimedDelivery): Plan {
    const { directory, prepared, observer, completions } = this.#options
    const found = directory.findTenantById(delivery.tenantId)
    if (found === undefined) return { kind: 'snoozed', byMs: unknownTenantMs }
    if (found.suspended || completions.suspending.has(delivery.tenantId))
      return { kind: 'snoozed', byMs: suspendedTenantMs }
    const paused = this.#options.paused?.()
    if (paused?.all || paused?.tenants.has(delivery.tenantId)) return { kind: 'snoozed', byMs: pausedMs }
    const tenant = prepared.of(found)
    if (tenant.isUnreadable) {
      if (this.#unreadable.size < unreadableTenantsMax) this.#unreadable.set(delivery.tenantId, found)
      return { kind: 'snoozed', byMs: unreadableTenantMs }
    }
    if (delivery.claims > claimsMax)
      return { kind: 'not_sent', tenant, result: { kind: 'not_sent', cause: 'worker_lost', durationMs: 0 } }
    const { waitsMs, jitterPercent } = tenant.schedule
    const firstWaitMs = waitsMs[0] ?? 0
    if (delivery.attempts === 0 && !delivery.isRetry && firstWaitMs > 0)
      return { kind: 'snoozed', byMs: jitteredMs(firstWaitMs, jitterPercent, Math.random()) }
    if (tenant.keys.length > 0) return { kind: 'send', tenant }
    observer.signingUnavailable(delivery.tenantId)
    return {
      ...{ kind: 'not_sent', tenant },
      result: { kind: 'not_sent', cause: 'signing_unavailable', durationMs: 0 },
    }
  }

  async #send(held: Held, content: EventContent, tenant: PreparedTenant): Promise<void> {
    const startedAtMs = this.#now()
    this.#calls += 1
    const sending = { delivery: held.delivery, content, tenant, signal: this.#aborting.signal }
    const result = await this.#sendSafely(sending)
    this.#calls -= 1
    held.wasCalled = true
    this.#loader.giveBytes(held)
    if (result.kind === 'failed' && result.cause === 'aborted') this.#keep(held)
    else this.#conclude(held, content, { result, tenant, startedAtMs })
    if (this.#calls === 0) this.#callsEnded?.()
    this.load()
  }

  /** A fault of ours in one event's call is one failed attempt, and no end of the process with all that it holds. */
  async #sendSafely(sending: Sending): Promise<AttemptResult> {
    const startedMs = performance.now()
    try {
      return await sendDelivery(this.#options, sending)
    } catch (error) {
      this.#options.observer.failed('send', error)
      return { kind: 'not_sent', cause: 'internal_error', durationMs: performance.now() - startedMs }
    }
  }

  #conclude(
    held: Held,
    content: EventContent | undefined,
    { result, tenant, startedAtMs }: { result: AttemptResult; tenant: PreparedTenant; startedAtMs: number },
  ): void {
    const { observer } = this.#options
    const { delivery } = held
    const { ending, suspends } = concludeAttempt({
      ...{ delivery, result, startedAtMs, schedule: tenant.schedule },
      ...{ random: Math.random(), nowMs: this.#now() },
    })
    const queueChange: QueueChange | undefined = suspends
      ? { kind: 'suspend', cause: suspends }
      : this.#breakerChange(delivery, result)
    const isFirst = delivery.attempts === 0 && delivery.cycle === 1 && content !== undefined
    const delayMs = isFirst ? startedAtMs - content.receivedAtMs : undefined
    observer.attempted({ delivery, content, ending, delayMs })
    this.#complete(held, ending, queueChange)
  }

  #breakerChange({ tenantId, isProbe }: ClaimedDelivery, result: AttemptResult): QueueChange | undefined {
    const didWell = callbackDidWell(result)
    if (didWell === undefined) return undefined
    const opens = this.#health.record(tenantId, didWell, this.#now())
    if (isProbe && didWell) {
      this.#health.reset(tenantId)
      return { kind: 'close_breaker' }
    }
    if (!opens && !isProbe) return undefined
    this.#health.opened(tenantId, this.#now())
    this.#options.capacity.holdBack(tenantId)
    return { kind: 'open_breaker' }
  }

  #snooze(held: Held, byMs: number): void {
    this.#complete(held, { kind: 'snoozed', dueAtMs: this.#now() + byMs })
  }

  /** A probe that asked nobody makes way for another. */
  #complete(held: Held, ending: Ending, queueChange?: QueueChange): void {
    const unasked = held.delivery.isProbe ? ({ kind: 'release_probe' } as const) : undefined
    this.#options.completions.add({ leased: held, ending, queueChange: queueChange ?? unasked })
    this.#release(held)
  }

  #continue(held: Held, loaded: LoadedEvent | undefined): void {
    const { observer } = this.#options
    const { delivery } = held
    const plan = this.#planOf(delivery)
    if (loaded?.kind === 'whole' && plan.kind === 'send' && !this.#stopped) {
      void this.#send(held, loaded.content, plan.tenant)
      return
    }
    this.#loader.giveBytes(held)
    if (this.#stopped) return this.#keep(held)
    if (loaded?.kind === 'whole')
      return this.#snooze(held, plan.kind === 'snoozed' ? plan.byMs : unknownTenantMs)
    if (loaded?.kind === 'payload_expired') {
      const ending = concludeWithoutPayload(this.#now())
      observer.attempted({ delivery, content: undefined, ending, delayMs: undefined })
      this.#complete(held, ending)
    } else this.#complete(held, { kind: 'expired' })
  }

  /** For `stop` to give back. */
  #keep(held: Held): void {
    this.#unfinished.push(held.delivery)
    this.#release(held)
  }

  #release(held: Held): void {
    const { delivery } = held
    if (this.#held.get(delivery.eventId) === held) this.#held.delete(delivery.eventId)
    this.#options.onRoom(this.#options.capacity.give(held.place, held.wasCalled))
  }

  #now(): number {
    return this.#options.clock.now()
  }
}

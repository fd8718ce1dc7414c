import { type Clock, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import type { CallResult } from '#internal/http/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { CallbackHealth } from './breaker.ts'
import type { Capacity } from './capacity.ts'
import type { Claimed } from './claim.ts'
import { type AttemptResult, callbackDidWell, concludeAttempt, concludeWithoutPayload } from './conclude.ts'
import { jitteredMs } from './decide-next.ts'
import type { ClaimedDelivery, EventContent } from './delivery.ts'
import { type LoadedEvent, loadEvents } from './load.ts'
import type { ForwarderObserver } from './observer.ts'
import type { PreparedTenant, PreparedTenants } from './prepared-tenant.ts'
import { type SendParts, sendDelivery } from './send.ts'
import type { LaneChange, SettlementQueue } from './settlement-queue.ts'

/** What deliveries are brought to their end with. */
export interface DelivererOptions extends SendParts {
  readonly pool: Pool
  readonly clock: Clock
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly prepared: PreparedTenants
  readonly capacity: Capacity
  readonly settlements: SettlementQueue
  readonly observer: ForwarderObserver
  /** Told that a delivery has ended, and whether its tenant had all that it may have until then. */
  readonly onRoom: (laneWasFull: boolean) => void
}

/** A delivery from its claim to its answer. */
export interface Held {
  readonly delivery: ClaimedDelivery
  /** By `performance.now()`; moved by renewals. */
  leaseEndsMs: number
}

type Plan =
  | { readonly kind: 'send'; readonly tenant: PreparedTenant }
  | { readonly kind: 'put_off'; readonly byMs: number }
  | { readonly kind: 'not_sent'; readonly result: AttemptResult; readonly tenant: PreparedTenant }

/** A taking that was not settled may have been a worker's end; after so many, the delivery is taken to be the cause. */
const claimsMax = 5
const loadRowsMax = 100
/** The directory of this process may be behind by a poll. */
const unknownTenantMs = 5_000
const suspendedTenantMs = 10_000

/** Brings claimed deliveries to their end: loads, sends, concludes. Holds what `Capacity` says and no more. */
export class Deliverer {
  readonly #options: DelivererOptions
  readonly #health = new CallbackHealth()
  readonly #held = new Map<EventId, Held>()
  readonly #aborting = new AbortController()
  /** Their events are to be read, when there is room for them. */
  #unloaded: Held[] = []
  #loading = false
  #stopped = false
  #calls = 0
  #callsEnded: (() => void) | undefined
  readonly #unfinished: ClaimedDelivery[] = []

  constructor(options: DelivererOptions) {
    this.#options = options
  }

  /** Everything between claim and answer. */
  held(): Iterable<Held> {
    return this.#held.values()
  }

  /** Begins deliveries that were claimed just now. After `stop` they are kept to be given back. */
  take(claimed: readonly Claimed[], leaseEndsMs: number): void {
    for (const { delivery, content } of claimed) this.#begin({ delivery, leaseEndsMs }, content)
    this.load()
  }

  /** Reads the events that had no room so far. Called whenever there may be some. */
  load(): void {
    if (this.#loading || this.#stopped || this.#unloaded.length === 0) return
    this.#loading = true
    void this.#loadWhatFits().finally(() => {
      this.#loading = false
    })
  }

  /** Lets go of a delivery that others have taken over; a call under way goes on. */
  drop(held: Held): void {
    const at = this.#unloaded.indexOf(held)
    if (at < 0) return
    this.#unloaded.splice(at, 1)
    this.#release(held)
  }

  /**
   * Begins nothing more, waits for the calls under way, and ends them after `msMax`. Gives what is to be given back: what was
   * not begun or not ended by its callback.
   */
  async stop(msMax: number): Promise<readonly ClaimedDelivery[]> {
    this.#stopped = true
    for (const held of this.#unloaded.splice(0)) this.#keep(held)
    if (this.#calls > 0) {
      const ended = new Promise<void>((resolve) => {
        this.#callsEnded = resolve
      })
      const timer = setTimeout(() => this.#aborting.abort(), msMax)
      await ended
      clearTimeout(timer)
    }
    return this.#unfinished
  }

  #begin(held: Held, content: EventContent | undefined): void {
    const { capacity } = this.#options
    const { delivery } = held
    this.#held.set(delivery.eventId, held)
    capacity.take(delivery.tenantId)
    if (this.#stopped) return this.#keep(held)
    const plan = this.#planOf(delivery)
    if (plan.kind === 'put_off') return this.#putOff(held, plan.byMs)
    if (plan.kind === 'not_sent')
      return this.#conclude(held, undefined, { ...plan, startedAtMs: this.#now() })
    if (content !== undefined && capacity.takeBytes(delivery.payloadBytes, delivery.tenantId))
      void this.#send(held, content, plan.tenant)
    else this.#unloaded.push(held)
  }

  #planOf(delivery: ClaimedDelivery): Plan {
    const { directory, prepared, observer } = this.#options
    const found = directory.findTenantById(delivery.tenantId)
    if (found === undefined) return { kind: 'put_off', byMs: unknownTenantMs }
    if (found.suspended) return { kind: 'put_off', byMs: suspendedTenantMs }
    const tenant = prepared.of(found)
    if (delivery.claims > claimsMax)
      return { kind: 'not_sent', tenant, result: { kind: 'not_sent', cause: 'worker_lost', durationMs: 0 } }
    const { waitsMs, jitterPercent } = tenant.schedule
    const firstWaitMs = waitsMs[0] ?? 0
    if (delivery.attempts === 0 && !delivery.isRetry && firstWaitMs > 0)
      return { kind: 'put_off', byMs: jitteredMs(firstWaitMs, jitterPercent, Math.random()) }
    if (tenant.keys.length > 0) return { kind: 'send', tenant }
    observer.signingUnavailable(delivery.tenantId)
    return {
      ...{ kind: 'not_sent', tenant },
      result: { kind: 'not_sent', cause: 'signing_unavailable', durationMs: 0 },
    }
  }

  async #send(held: Held, content: EventContent, tenant: PreparedTenant): Promise<void> {
    const { delivery } = held
    const startedAtMs = this.#now()
    this.#calls += 1
    const sending = { delivery, content, tenant, signal: this.#aborting.signal }
    const result: CallResult = await sendDelivery(this.#options, sending)
    this.#calls -= 1
    this.#options.capacity.giveBytes(delivery.payloadBytes, delivery.tenantId)
    if (result.kind === 'failed' && result.cause === 'aborted') this.#keep(held)
    else this.#conclude(held, content, { result, tenant, startedAtMs })
    if (this.#calls === 0) this.#callsEnded?.()
    this.load()
  }

  #conclude(
    held: Held,
    content: EventContent | undefined,
    { result, tenant, startedAtMs }: { result: AttemptResult; tenant: PreparedTenant; startedAtMs: number },
  ): void {
    const { observer, settlements } = this.#options
    const { delivery } = held
    const { ending, suspends } = concludeAttempt({
      ...{ delivery, result, startedAtMs, schedule: tenant.schedule },
      ...{ random: Math.random(), nowMs: this.#now() },
    })
    const laneChange: LaneChange | undefined = suspends
      ? { kind: 'suspend', cause: suspends }
      : this.#breakerChange(delivery, result)
    const isFirst = delivery.attempts === 0 && delivery.round === 1 && content !== undefined
    const delayMs = isFirst ? startedAtMs - content.receivedAtMs : undefined
    observer.attempted({ delivery, content, ending, delayMs })
    settlements.add({ delivery, ending, laneChange })
    this.#release(held)
  }

  #breakerChange({ tenantId, isProbe }: ClaimedDelivery, result: AttemptResult): LaneChange | undefined {
    const didWell = callbackDidWell(result)
    if (didWell === undefined) return undefined
    const opens = this.#health.record(tenantId, didWell, this.#now())
    if (isProbe && didWell) {
      this.#health.reset(tenantId)
      return { kind: 'close_breaker' }
    }
    if (!opens && !isProbe) return undefined
    this.#options.capacity.holdBack(tenantId)
    return { kind: 'open_breaker' }
  }

  #putOff(held: Held, byMs: number): void {
    const ending = { kind: 'put_off', dueAtMs: this.#now() + byMs } as const
    this.#options.settlements.add({ delivery: held.delivery, ending })
    this.#release(held)
  }

  async #loadWhatFits(): Promise<void> {
    for (let batch = this.#takeLoadable(); batch.length > 0; batch = this.#takeLoadable()) {
      const groups = Map.groupBy(batch, ({ delivery: { eventId, payloadExpiresOn } }) =>
        [expiryDayOf(eventId), payloadExpiresOn].join(' '),
      )
      for (const group of groups.values()) await this.#loadGroup(group)
    }
  }

  /** Takes room for the bytes of each, a tenant that has its quarter waits without holding up the others. */
  #takeLoadable(): Held[] {
    const { capacity, observer } = this.#options
    const fits: Held[] = []
    const rest: Held[] = []
    let lost = 0
    for (const held of this.#unloaded) {
      const { payloadBytes, tenantId } = held.delivery
      if (performance.now() >= held.leaseEndsMs) {
        this.#release(held)
        lost += 1
      } else if (fits.length < loadRowsMax && capacity.takeBytes(payloadBytes, tenantId)) fits.push(held)
      else rest.push(held)
    }
    this.#unloaded = rest
    if (lost > 0) observer.leasesLost(lost)
    return fits
  }

  async #loadGroup(group: readonly Held[]): Promise<void> {
    const { pool, observer } = this.#options
    const [first] = group
    if (first === undefined) return
    const { eventId, payloadExpiresOn } = first.delivery
    try {
      const eventIds = group.map(({ delivery }) => delivery.eventId)
      const loaded = await loadEvents(pool, { expiresOn: expiryDayOf(eventId), payloadExpiresOn, eventIds })
      for (const held of group) this.#continue(held, loaded.get(held.delivery.eventId))
    } catch (error) {
      observer.failed('load', error)
      // They are due again soon, here or elsewhere.
      for (const held of group) {
        this.#giveBytes(held)
        this.#putOff(held, unknownTenantMs)
      }
    }
  }

  #continue(held: Held, loaded: LoadedEvent | undefined): void {
    const { settlements, observer } = this.#options
    const { delivery } = held
    const plan = this.#planOf(delivery)
    if (loaded?.kind === 'whole' && plan.kind === 'send' && !this.#stopped) {
      void this.#send(held, loaded.content, plan.tenant)
      return
    }
    this.#giveBytes(held)
    if (this.#stopped) return this.#keep(held)
    if (loaded?.kind === 'whole') return this.#putOff(held, unknownTenantMs)
    if (loaded?.kind === 'payload_expired') {
      const ending = concludeWithoutPayload(this.#now())
      observer.attempted({ delivery, content: undefined, ending, delayMs: undefined })
      settlements.add({ delivery, ending })
    } else settlements.add({ delivery, ending: { kind: 'expired' } })
    this.#release(held)
  }

  /** For `stop` to give back. */
  #keep(held: Held): void {
    this.#unfinished.push(held.delivery)
    this.#release(held)
  }

  #release({ delivery }: Held): void {
    this.#held.delete(delivery.eventId)
    this.#options.onRoom(this.#options.capacity.give(delivery.tenantId))
  }

  #giveBytes({
    delivery: { payloadBytes, tenantId },
  }: {
    delivery: { payloadBytes: number; tenantId: TenantId }
  }) {
    this.#options.capacity.giveBytes(payloadBytes, tenantId)
  }

  #now(): number {
    return this.#options.clock.now()
  }
}

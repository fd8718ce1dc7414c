import { systemClock, type TenantId } from '#internal/base/index.ts'
import {
  type Attempt,
  type ClaimedDelivery,
  carriesEvents,
  type Ending,
  type EventContent,
  type SuspendedCause,
} from '#internal/events/index.ts'
import {
  createLineLimit,
  createSlugLabel,
  type Logger,
  type Metrics,
  type Sampler,
  unlabelled,
} from '#internal/telemetry/index.ts'
import type { Directory, NotificationType } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { type DestinationKindName, destinationKinds } from './destinations/registry.ts'
import type { ForwarderStats } from './forwarder.ts'

export interface AttemptReport {
  readonly delivery: ClaimedDelivery
  /** Undefined if the tenant no longer has the destination. */
  readonly destinationKind: DestinationKindName | undefined
  /** Undefined if the attempt ended without the event's content. */
  readonly content: EventContent | undefined
  readonly ending: Extract<Ending, { readonly attempt: Attempt }>
  /** Time from the receipt of the event to the start of this attempt. Set for first attempts of first delivery cycles only. */
  readonly delayMs: number | undefined
}

/** Steps whose failures are reported and retried. */
export const forwarderSteps = [
  'claim',
  'load',
  'send',
  'complete',
  'renew',
  'sweep',
  'release',
  'alerts',
  'offer',
] as const
export type ForwarderStep = (typeof forwarderSteps)[number]

/** These callbacks must not throw or block. */
export interface ForwarderObserver {
  claimed(rows: number): void
  /** Called with the number of deliveries that this process accepted from a message of intake. */
  handed(count: number): void
  attempted(report: AttemptReport): void
  /** Called with the number of deliveries whose lease expired before they were completed. They are repeated. */
  leasesLost(count: number): void
  /** Called for an outcome that Postgres rejects, which is not retried. @param cause SQLSTATE or name of the error */
  unwritable(delivery: ClaimedDelivery, cause: string): void
  /** Called with the number of stalled tenant queues that the sweep woke. Above 0, it indicates a fault elsewhere. */
  swept(queues: number): void
  released(count: number): void
  /** Called once over all processes when a circuit breaker opens, not for each delivery in flight, and not again if a probe fails. */
  breakerOpened(tenantId: TenantId): void
  callbackSuspended(tenantId: TenantId, cause: SuspendedCause): void
  /** Called when the receiver of a tenant's notifications asked for no further notifications. */
  notificationsSuspended(tenantId: TenantId, cause: SuspendedCause): void
  ownerNotified(type: NotificationType): void
  signingUnavailable(tenantId: TenantId): void
  failed(step: ForwarderStep, error: unknown): void
}

export interface DeliveryTelemetry extends ForwarderObserver {
  /** Declares gauges that call `stats` at each scrape. */
  watch(stats: () => ForwarderStats): void
}

/** Limits log lines per kind of failed step: many statements per second fail while Postgres is unavailable. */
const logLimit = { perSecondMax: 1, clock: systemClock }
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30]
const delayBuckets = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

interface TelemetryParts {
  /** Chooses the delivered events whose attempts are logged. */
  readonly sampler: Pick<Sampler, 'keeps'>
  readonly stats: StatsTally
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly onNotified: ForwarderObserver['ownerNotified']
}

/** Declares the metrics of deliveries and writes their log lines. Call once per process. */
export function createDeliveryTelemetry(
  { log, metrics }: { readonly log: Logger; readonly metrics: Metrics },
  { onNotified, ...parts }: TelemetryParts,
): DeliveryTelemetry {
  const counters = declareCounters(metrics)
  const mayLog = createLineLimit(logLimit)
  return {
    attempted: observeAttempts({ log, metrics }, parts),
    claimed(rows) {
      counters.claims.inc()
      counters.claimed.inc(rows)
    },
    handed(count) {
      counters.handed.inc(count)
    },
    leasesLost(count) {
      counters.lost.inc(count)
      log.warn({ count }, 'delivery leases lost; deliveries will be repeated')
    },
    released(count) {
      counters.released.inc(count)
      log.info({ count }, 'deliveries released')
    },
    failed(step, cause) {
      counters.failures.with(step).inc()
      if (mayLog(step)) log.warn({ step, cause }, 'delivery step failed; retrying')
    },
    unwritable({ eventId, tenantId, cycle, attempts }, cause) {
      counters.unwritable.inc()
      const fields = { event: eventId, tenant: tenantId, cycle, attempt: attempts + 1, cause }
      log.error(fields, 'Postgres rejected the outcome of a delivery; the delivery will be repeated')
    },
    swept(queues) {
      counters.stalled.inc(queues)
      log.warn({ queues }, 'sweep woke stalled tenant queues')
    },
    breakerOpened(tenant) {
      counters.opened.inc()
      log.warn({ tenant }, 'circuit breaker opened: calls to the callback fail, so its deliveries wait')
    },
    callbackSuspended(tenant, cause) {
      counters.suspended.inc()
      log.warn(
        { tenant, cause },
        'callback suspended at its own request: its deliveries wait until it is resumed',
      )
    },
    notificationsSuspended(tenant, cause) {
      log.warn(
        { tenant, cause },
        'receiver of notifications suspended at its own request: its notifications wait until it is resumed',
      )
    },
    ownerNotified: onNotified,
    signingUnavailable(tenant) {
      counters.unsigned.inc()
      log.error({ tenant }, 'delivery not sent: the tenant has no usable signing secret')
    },
    watch: (read) => declareGauges(metrics, read),
  }
}

function observeAttempts(
  { log, metrics }: { readonly log: Logger; readonly metrics: Metrics },
  { sampler, stats, directory }: Omit<TelemetryParts, 'onNotified'>,
): ForwarderObserver['attempted'] {
  const countAttemptOf = declareAttempts(metrics)
  const byTenant = metrics.counter({
    name: 'latchkey_tenants_attempts_total',
    help: 'Delivery attempts by tenant slug (first 400 per process, then other) and resulting state: processed, later, failed.',
    labels: ['tenant', 'ending'],
  })
  const slugOf = createSlugLabel((id) => directory.findTenantById(id)?.slug)
  return (report) => {
    const { delivery, ending } = report
    countAttemptOf(report)
    byTenant.with(slugOf(delivery.tenantId), ending.kind).inc()
    // The statistics of a tenant are about its providers' events.
    if (carriesEvents(delivery.destination)) countAttempt(stats, report)
    if (ending.kind === 'failed') log.warn(attemptFields(report), 'delivery failed permanently')
    else if (ending.kind !== 'processed' || sampler.keeps())
      log.info(attemptFields(report), 'delivery attempt')
  }
}

/** Counts an attempt; never throws. Omits the delay since receipt after the first cycle: it would include the time before a replay. */
export function countAttempt(stats: StatsTally, { delivery, content, ending }: AttemptReport): void {
  const { tenantId, cycle } = delivery
  const { outcome, startedAtMs, durationMs } = ending.attempt
  if (outcome !== 'delivered' && content) stats.count(tenantId, 'attemptsFailed')
  if (ending.kind === 'failed') stats.count(tenantId, 'failed')
  if (ending.kind !== 'processed') return
  const isFirstCycle = cycle === 1 && content !== undefined
  stats.countDelivered(tenantId, isFirstCycle ? startedAtMs + durationMs - content.receivedAtMs : undefined)
}

function declareGauges(metrics: Metrics, read: () => ForwarderStats): void {
  const { gauge } = unlabelled(metrics)
  gauge('latchkey_delivery_in_flight_count', 'Deliveries claimed and not answered.', () => read().inFlight)
  gauge(
    'latchkey_delivery_uncompleted_count',
    'Completed delivery calls whose outcome is not written yet.',
    () => read().uncompleted,
  )
}

function declareAttempts(metrics: Metrics) {
  const attempts = metrics.counter({
    name: 'latchkey_delivery_attempts_total',
    help: 'Delivery attempts by outcome: delivered, refused (response other than 2xx), failed (no response).',
    labels: ['outcome', 'destination_kind'],
  })
  const endings = metrics.counter({
    name: 'latchkey_delivery_endings_total',
    help: 'Delivery attempts by the resulting state of the delivery: processed, later (will be retried), failed.',
    labels: ['ending', 'destination_kind'],
  })
  // Exposes the series as 0 from the start, so that `rate()` sees the first increment.
  for (const kind of Object.keys(destinationKinds)) {
    for (const outcome of ['delivered', 'refused', 'failed']) attempts.with(outcome, kind).inc(0)
    for (const ending of ['processed', 'later', 'failed']) endings.with(ending, kind).inc(0)
  }
  const { histogram } = unlabelled(metrics)
  const duration = histogram(
    'latchkey_delivery_attempt_duration_seconds',
    'Duration of callback calls.',
    durationBuckets,
  )
  const delay = histogram(
    'latchkey_delivery_delay_seconds',
    'Time from the receipt of an event to its first attempt.',
    delayBuckets,
  )
  return ({ destinationKind = 'webhook', ending, delayMs }: AttemptReport): void => {
    attempts.with(ending.attempt.outcome, destinationKind).inc()
    endings.with(ending.kind, destinationKind).inc()
    duration.observe(ending.attempt.durationMs / 1000)
    if (delayMs !== undefined) delay.observe(Math.max(0, delayMs) / 1000)
  }
}

function declareCounters(metrics: Metrics) {
  const { counter } = unlabelled(metrics)
  const failures = metrics.counter({
    name: 'latchkey_delivery_failures_total',
    help: 'Failed steps of the forwarder, each retried.',
    labels: ['step'],
  })
  for (const step of forwarderSteps) failures.with(step).inc(0)
  return {
    failures,
    claims: counter('latchkey_delivery_claims_total', 'Claims.'),
    claimed: counter('latchkey_delivery_claimed_total', 'Claimed deliveries.'),
    handed: counter('latchkey_delivery_handed_total', 'Deliveries handed over by intake, without a claim.'),
    lost: counter(
      'latchkey_delivery_lost_leases_total',
      'Deliveries whose lease ended before they were completed.',
    ),
    released: counter('latchkey_delivery_released_total', 'Deliveries released without an attempt.'),
    opened: counter(
      'latchkey_delivery_breakers_opened_total',
      'Circuit breakers opened, over all forwarders. A failed probe does not count.',
    ),
    suspended: counter(
      'latchkey_delivery_callbacks_suspended_total',
      'Callbacks suspended at their own request.',
    ),
    unsigned: counter(
      'latchkey_delivery_unsigned_total',
      'Deliveries not sent because the tenant has no usable signing secret.',
    ),
    unwritable: counter(
      'latchkey_delivery_unwritable_total',
      'Delivery outcomes that Postgres rejected; 0 unless there is a bug.',
    ),
    stalled: counter(
      'latchkey_events_stalled_tenant_queues_total',
      'Stalled tenant queues that the sweep woke; 0 unless there is another fault.',
    ),
  }
}

/** Fields of an attempt's log line. Contains no body, address or secret. */
function attemptFields({ delivery, content, ending, delayMs }: AttemptReport): object {
  const { attempt } = ending
  return {
    event: delivery.eventId,
    tenant: delivery.tenantId,
    provider: content?.provider,
    type: content?.type,
    cycle: delivery.cycle,
    attempt: delivery.attempts + 1,
    outcome: attempt.outcome,
    status: attempt.status ?? undefined,
    cause: attempt.cause ?? undefined,
    durationMs: Math.round(attempt.durationMs),
    ending: ending.kind,
    delayMs,
  }
}

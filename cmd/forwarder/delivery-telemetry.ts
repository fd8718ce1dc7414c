import type { Host } from '#cmd/serving/telemetry.ts'
import type { AttemptReport, ForwarderObserver, ForwarderStats } from '#internal/delivery/index.ts'
import { type Sampler, unlabelled } from '#internal/telemetry/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'

/** Metrics and log lines of deliveries. */
export interface DeliveryTelemetry extends ForwarderObserver {
  /** Has gauges read from it when they are scraped. */
  watch(stats: () => ForwarderStats): void
}

/** Failed statements come many a second while Postgres is away; one line a second says as much. */
const logMs = 1000
const durationBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30]
const delayBuckets = [0.005, 0.01, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]

/**
 * Declares the metrics of deliveries.
 * @param keepsLine asked for each delivery that arrived, whose line is left out where it says no
 */
export function createDeliveryTelemetry(
  telemetry: Host,
  keepsLine: Sampler,
  stats: StatsTally,
): DeliveryTelemetry {
  const work = workObserver(telemetry, keepsLine)
  return {
    ...work,
    attempted(report) {
      work.attempted(report)
      countAttempt(stats, report)
    },
    ...troubleObserver(telemetry),
    ...gauges(telemetry),
  }
}

/**
 * Counts an attempt among its tenant's stats, with its time only in a first cycle: later it says nothing of how long a delivery
 * takes. Memory only; never throws.
 */
export function countAttempt(stats: StatsTally, { delivery, content, ending }: AttemptReport): void {
  const { tenantId, cycle } = delivery
  const { outcome, startedAtMs, durationMs } = ending.attempt
  if (outcome !== 'delivered' && content) stats.count(tenantId, 'attemptsFailed')
  if (ending.kind === 'failed') stats.count(tenantId, 'failed')
  if (ending.kind !== 'processed') return
  const isFirstCycle = cycle === 1 && content !== undefined
  stats.countDelivered(tenantId, isFirstCycle ? startedAtMs + durationMs - content.receivedAtMs : undefined)
}

function workObserver(
  { log, metrics }: Host,
  keepsLine: Sampler,
): Pick<ForwarderObserver, 'claimed' | 'attempted' | 'leasesLost' | 'released' | 'failed'> {
  const { counter, histogram } = unlabelled(metrics)
  const attempts = metrics.counter({
    name: 'latchkey_deliveries_attempts_total',
    help: 'Calls of callbacks that had an end: delivered, refused by their answer, failed without one.',
    labels: ['outcome'],
  })
  const endings = metrics.counter({
    name: 'latchkey_deliveries_endings_total',
    help: 'What came of attempts: processed, later, failed.',
    labels: ['ending'],
  })
  const durations = histogram(
    'latchkey_deliveries_attempt_duration_seconds',
    'Time that callbacks took.',
    durationBuckets,
  )
  const delays = histogram(
    'latchkey_deliveries_delay_seconds',
    'Time from a provider’s call to the first attempt.',
    delayBuckets,
  )
  const claims = counter('latchkey_deliveries_claims_total', 'Claims that were made.')
  const claimed = counter('latchkey_deliveries_claimed_total', 'Deliveries that were claimed.')
  const lost = counter('latchkey_deliveries_lost_leases_total', 'Deliveries that others had taken over.')
  const back = counter('latchkey_deliveries_given_back_total', 'Deliveries given back at the process’ end.')
  const failures = metrics.counter({
    name: 'latchkey_deliveries_failures_total',
    help: 'Statements of deliveries that failed.',
    labels: ['step'],
  })
  // Shown as 0 before the first one, so that the first is a rise.
  for (const outcome of ['delivered', 'refused', 'failed']) attempts.with(outcome).inc(0)
  for (const ending of ['processed', 'later', 'failed']) endings.with(ending).inc(0)
  for (const step of ['claim', 'load', 'send', 'settle', 'renew', 'sweep', 'give back'])
    failures.with(step).inc(0)
  let loggedMs = Number.NEGATIVE_INFINITY
  return {
    claimed(rows) {
      claims.inc()
      claimed.inc(rows)
    },
    attempted(report) {
      attempts.with(report.ending.attempt.outcome).inc()
      endings.with(report.ending.kind).inc()
      durations.observe(report.ending.attempt.durationMs / 1000)
      if (report.delayMs !== undefined) delays.observe(Math.max(0, report.delayMs) / 1000)
      if (report.ending.kind === 'failed') log.warn(attemptFields(report), 'delivery failed for good')
      else if (report.ending.kind !== 'processed' || keepsLine())
        log.info(attemptFields(report), 'delivery attempt')
    },
    leasesLost(count) {
      lost.inc(count)
      log.warn({ count }, 'deliveries were not settled in time, and are made once more')
    },
    released(count) {
      back.inc(count)
      log.info({ count }, 'deliveries were given back')
    },
    failed(step, cause) {
      failures.with(step).inc()
      if (performance.now() - loggedMs < logMs) return
      loggedMs = performance.now()
      log.warn({ step, cause }, 'deliveries cannot go on, trying again')
    },
  }
}

/** One line an attempt: no body, no address, no secret. */
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

function troubleObserver({
  log,
  metrics,
}: Host): Pick<
  ForwarderObserver,
  'unwritable' | 'swept' | 'breakerOpened' | 'callbackSuspended' | 'signingUnavailable'
> {
  const { counter } = unlabelled(metrics)
  const swept = counter(
    'latchkey_deliveries_lane_corrections_total',
    'Lanes that overslept and were woken by the sweep: stays flat unless something else is wrong.',
  )
  const opened = counter(
    'latchkey_deliveries_breakers_opened_total',
    'Times that a callback’s breaker opened, over all forwarders. A failed probe keeps it open and counts no more.',
  )
  const suspended = counter(
    'latchkey_deliveries_callbacks_suspended_total',
    'Callbacks that asked to be left alone.',
  )
  const unsigned = counter(
    'latchkey_deliveries_unsigned_total',
    'Deliveries not sent since the tenant has no usable signing secret.',
  )
  const unwritable = counter(
    'latchkey_deliveries_unwritable_total',
    'Ends of deliveries that Postgres refuses for what is in them: stays flat unless something is wrong here.',
  )
  return {
    unwritable({ eventId, tenantId, cycle, attempts }, cause) {
      unwritable.inc()
      log.error(
        { event: eventId, tenant: tenantId, cycle, attempt: attempts + 1, cause },
        'the end of a delivery cannot be written and is given up: the delivery is made once more',
      )
    },
    swept(queues) {
      swept.inc(queues)
      log.warn({ queues }, 'sweep woke stalled tenant queues')
    },
    breakerOpened(tenant) {
      opened.inc()
      log.warn({ tenant }, 'circuit breaker opened: the callback fails, its deliveries wait')
    },
    callbackSuspended(tenant, cause) {
      suspended.inc()
      log.warn(
        { tenant, cause },
        'a callback asked to be left alone: its deliveries wait until it is resumed',
      )
    },
    signingUnavailable(tenant) {
      unsigned.inc()
      log.error({ tenant }, 'a tenant has no usable signing secret: its delivery was not sent')
    },
  }
}

function gauges({ metrics }: Host): Pick<DeliveryTelemetry, 'watch'> {
  return {
    watch(stats) {
      const { gauge } = unlabelled(metrics)
      gauge(
        'latchkey_deliveries_in_flight_count',
        'Deliveries claimed and not answered.',
        () => stats().inFlight,
      )
      gauge(
        'latchkey_deliveries_unsettled_count',
        'Answers that are not written yet.',
        () => stats().uncompleted,
      )
    },
  }
}

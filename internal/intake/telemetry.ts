import { systemClock, type TenantId } from '#internal/base/index.ts'
import {
  type FetchedSource,
  fetchedSources,
  type KeyFetchOutcome,
  keyFetchOutcomes,
  type VendorKeys,
} from '#internal/providers/index.ts'
import { createLineLimit, type Logger, type Metrics, unlabelled } from '#internal/telemetry/index.ts'
import { type ProviderName, providerNames } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import type { OpenIntake } from './create-intake.ts'
import type { DeadEntry } from './drain.ts'
import type { CallOutcome } from './http.ts'
import type { SpoolRefusal, SpoolStats } from './spool.ts'

/** Limits log lines that would otherwise be written many times per second during an outage. */
const logLimit = { perSecondMax: 1, clock: systemClock }

/** Reports what happens in intake, for metrics and log lines. No function may throw. */
export interface IntakeObserver {
  /** Called once per call for a known tenant and provider. */
  called(provider: ProviderName, outcome: CallOutcome, tenantId: TenantId): void
  /** Called once for each declaration that cannot be compiled, until any declaration changes. */
  declarationUnusable(provider: ProviderName, cause: unknown): void
  /** `unavailable` means that Postgres is unavailable; `refused` means that Postgres rejected an event's data. */
  storeFailed(cause: unknown, kind: 'unavailable' | 'refused'): void
  /** Called once per change of a queue's circuit breaker. */
  storeBreaker(queue: 'small' | 'large', isOpen: boolean): void
  /** Called for events that could not be spooled. `cause` is set only for an unexpected error. */
  spoolRefused(reason: SpoolRefusal, events: number, cause?: unknown): void
  /** Called for an entry that was moved to the dead stream. */
  spoolDead(entry: DeadEntry): void
}

interface Outputs {
  readonly log: Logger
  readonly metrics: Metrics
}

/** Metrics and log lines of the webhook intake. */
export interface IntakeTelemetry extends IntakeObserver {
  /** Stores the latest statistics of the spool, which the gauges then report. */
  seen(stats: SpoolStats): void
  /** Declares gauges of the event queues, and of refused calls that were not recorded. The gauges are read at each scrape. */
  watch(intake: Pick<OpenIntake, 'queue' | 'refusedCalls'>): void
}

/**
 * Declares the metrics of webhook calls and their events, counts calls in the statistics of their tenants, and logs failures of the event
 * store and the spool. Call once per process.
 */
export function observeIntake({ log, metrics }: Outputs, stats: StatsTally): IntakeTelemetry {
  const calls = metrics.counter({
    name: 'latchkey_intake_calls_total',
    help: 'Webhook calls for known tenants, by provider (`declared` for all declared ones together) and outcome.',
    labels: ['provider', 'outcome'],
  })
  const failures = metrics.counter({
    name: 'latchkey_intake_store_failures_total',
    help: 'Failed inserts of events: Postgres unavailable, or an event whose data it rejects.',
    labels: ['kind'],
  })
  // Exposes the series as 0 from the start, so that `increase()` sees the first failure.
  for (const kind of ['unavailable', 'refused']) failures.with(kind).inc(0)
  const unusable = unlabelled(metrics).counter(
    'latchkey_intake_declarations_unusable_total',
    'Declarations of providers that this version cannot compile: their calls are answered with 503 until a version that can serves them.',
  )
  const mayLog = createLineLimit(logLimit)
  return {
    ...observeSpool({ log, metrics }),
    called(provider, outcome, tenantId) {
      calls.with(providerNames.find((name) => name === provider) ?? 'declared', outcome).inc()
      countCall(stats, tenantId, outcome)
    },
    declarationUnusable(provider, cause) {
      unusable.inc()
      log.error({ provider, cause }, 'declaration of a provider cannot be compiled: its calls are refused')
    },
    storeFailed(cause, kind) {
      failures.with(kind).inc()
      if (kind === 'refused') log.error({ cause }, 'Postgres rejected the data of an event')
      else if (mayLog(kind)) log.warn({ cause }, 'events could not be stored: Postgres is unavailable')
    },
    storeBreaker(queue, isOpen) {
      const change = isOpen
        ? 'event store circuit breaker opened: events are spooled without trying Postgres'
        : 'event store circuit breaker closed: events are stored in Postgres'
      log.warn({ queue }, change)
    },
    watch({ queue, refusedCalls }) {
      const { gauge } = unlabelled(metrics)
      gauge(
        'latchkey_intake_store_breaker_open_count',
        'Event queues (0 to 2: small and large events) with an open circuit breaker: their events are spooled immediately.',
        () => queue.openBreakers,
      )
      gauge('latchkey_intake_pending_count', 'Events whose calls wait for a commit.', () => queue.size)
      gauge(
        'latchkey_intake_refused_dropped_count',
        'Refused calls since the start that were counted but not recorded.',
        () => refusedCalls.dropped,
      )
    },
  }
}

/** Counts a provider's call in the statistics of its tenant. Uses memory only and never throws. */
export function countCall(stats: StatsTally, tenantId: TenantId, outcome: CallOutcome): void {
  switch (outcome) {
    case 'stored':
      return stats.count(tenantId, 'accepted')
    case 'queued':
      stats.count(tenantId, 'accepted')
      return stats.count(tenantId, 'spooled')
    case 'duplicate':
      return stats.count(tenantId, 'duplicates')
    case 'handshake':
      return
    case 'unavailable':
      return stats.countRefused(tenantId, 'stores_unavailable')
    case 'refused':
      return stats.countRefused(tenantId, 'event_unwritable')
    default:
      return stats.countRefused(tenantId, outcome)
  }
}

function observeSpool({
  log,
  metrics,
}: Outputs): Pick<IntakeTelemetry, 'spoolRefused' | 'spoolDead' | 'seen'> {
  const refused = metrics.counter({
    name: 'latchkey_intake_spool_refused_total',
    help: 'Events that could not be spooled while Postgres was unavailable. The response asked providers to send them again.',
    labels: ['reason'],
  })
  const dead = metrics.counter({
    name: 'latchkey_intake_spool_dead_total',
    help: 'Spool entries moved to the dead stream: unreadable, or rejected by Postgres.',
    labels: ['reason'],
  })
  for (const reason of ['away', 'volatile', 'full', 'share', 'unconfirmed']) refused.with(reason).inc(0)
  for (const reason of ['unreadable', 'refused']) dead.with(reason).inc(0)
  let seen: SpoolStats = { entries: 0, bytes: 0, oldestAgeMs: 0, deadEntries: 0, deadBytes: 0 }
  const { gauge } = unlabelled(metrics)
  const entriesHelp = 'Events in Redis that wait for Postgres.'
  gauge('latchkey_intake_spool_entries_count', entriesHelp, () => seen.entries)
  gauge('latchkey_intake_spool_bytes', 'Bytes of the spool, including dead entries.', () => seen.bytes)
  const ageHelp = 'Age of the oldest event in the spool.'
  gauge('latchkey_intake_spool_oldest_age_seconds', ageHelp, () => seen.oldestAgeMs / 1000)
  const deadHelp = 'Entries in the dead stream of the spool.'
  gauge('latchkey_intake_spool_dead_count', deadHelp, () => seen.deadEntries)
  return {
    spoolRefused(reason, events, cause) {
      refused.with(reason).inc(events)
      if (cause !== undefined) log.error({ reason, cause }, 'spool write failed with an unexpected error')
    },
    spoolDead({ eventId, reason }) {
      dead.with(reason).inc()
      log.error({ event: eventId, reason }, 'spool entry moved to the dead stream; inspect it in Redis')
    },
    seen: (stats) => void (seen = stats),
  }
}

/** Declares the metrics of fetched certificates, key sets and confirmed subscriptions, and logs failures. Call once per process. */
export function observeVendorKeys({ log, metrics }: Outputs) {
  const fetches = metrics.counter({
    name: 'latchkey_intake_certificate_fetches_total',
    help: 'Fetches of the wallet’s signing certificates, by outcome.',
    labels: ['outcome'],
  })
  const keyFetches = metrics.counter({
    name: 'latchkey_intake_key_fetches_total',
    help: 'Fetches of key sets and certificates of declared providers, and confirmations of subscriptions of Amazon SNS, by source and outcome.',
    labels: ['source', 'outcome'],
  })
  for (const outcome of keyFetchOutcomes) {
    fetches.with(outcome).inc(0)
    for (const source of fetchedSources) if (source !== 'wallet') keyFetches.with(source, outcome).inc(0)
  }
  const mayLog = createLineLimit(logLimit)
  return {
    fetched(source: FetchedSource, outcome: KeyFetchOutcome, detail?: string) {
      if (source === 'wallet') fetches.with(outcome).inc()
      else keyFetches.with(source, outcome).inc()
      if (outcome === 'trusted' || !mayLog(source)) return
      const text =
        source === 'sns_confirmation'
          ? 'subscription of Amazon SNS could not be confirmed'
          : 'fetch of a provider’s keys failed'
      log.warn({ source, outcome, cause: detail }, text)
    },
    /** Declares the gauge that reads the cached certificates at each scrape. */
    watch(vendorKeys: VendorKeys) {
      const help = 'Time until the first signing certificate used within a day expires; +Inf without any.'
      const read = () => vendorKeys.secondsToExpiry ?? Number.POSITIVE_INFINITY
      unlabelled(metrics).gauge('latchkey_intake_certificate_expiry_seconds', help, read)
    },
  }
}

import type {
  CallOutcome,
  DeadEntry,
  RefusedCalls,
  SizedQueues,
  SpoolRefusal,
  SpoolStats,
} from '#internal/intake/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { Telemetry } from './telemetry.ts'

/** What the intake tells about itself. */
export interface IntakeObserver {
  called(provider: ProviderName, outcome: CallOutcome): void
  /** A statement failed: Postgres is away, or it will never take this event. */
  storeFailed(error: unknown, kind: 'unavailable' | 'refused'): void
  /** The circuit breaker of a queue opened or closed. */
  storeBreaker(queue: 'small' | 'large', isOpen: boolean): void
  /** Events could not be spooled. */
  spoolRefused(reason: SpoolRefusal, events: number, cause?: unknown): void
  /** An entry of the spool was set aside. */
  spoolDead(entry: DeadEntry): void
  /** What was last seen in the spool, for its gauges. */
  spoolSeen(stats: SpoolStats): void
  /** Has gauges read from these when they are scraped. */
  watch(parts: { readonly queue: SizedQueues; readonly refusedCalls: RefusedCalls }): void
}

/** Failed statements come many a second while Postgres is away; one line a second says as much. */
const logMs = 1000

/** Declares the metrics of the intake. */
export function createIntakeObserver({ log, metrics }: Telemetry): IntakeObserver {
  return { ...callObserver(log, metrics), ...spoolObserver(log, metrics) }
}

function callObserver(
  log: Telemetry['log'],
  metrics: Telemetry['metrics'],
): Pick<IntakeObserver, 'called' | 'storeFailed' | 'storeBreaker' | 'watch'> {
  const calls = metrics.counter({
    name: 'latchkey_webhooks_calls_total',
    help: 'Calls of providers for known tenants, by what became of them.',
    labels: ['provider', 'outcome'],
  })
  const failures = metrics.counter({
    name: 'latchkey_webhooks_store_failures_total',
    help: 'Statements that could not store events: Postgres away, or an event that it will never take.',
    labels: ['kind'],
  })
  // Shown as 0 before the first one, so that the first is a rise.
  for (const kind of ['unavailable', 'refused']) failures.with(kind).inc(0)
  let loggedMs = Number.NEGATIVE_INFINITY
  return {
    called: (provider, outcome) => calls.with(provider, outcome).inc(),
    storeFailed(cause, kind) {
      failures.with(kind).inc()
      if (kind === 'refused') {
        log.error({ cause }, 'Postgres will never take an event')
        return
      }
      if (performance.now() - loggedMs < logMs) return
      loggedMs = performance.now()
      log.warn({ cause }, 'events could not be stored')
    },
    storeBreaker(queue, isOpen) {
      const now = isOpen
        ? 'event store circuit breaker opened: events are spooled without asking Postgres'
        : 'event store circuit breaker closed: events are stored in Postgres'
      log.warn({ queue }, now)
    },
    watch({ queue, refusedCalls }) {
      const { gauge } = unlabelled(metrics)
      gauge(
        'latchkey_webhooks_store_breaker_open_count',
        'Event queues (0 to 2: small and large events) whose circuit breaker before Postgres is open: their events are spooled at once.',
        () => queue.openBreakers,
      )
      gauge('latchkey_webhooks_pending_count', 'Events whose calls wait for a commit.', () => queue.size)
      gauge(
        'latchkey_webhooks_refused_dropped_count',
        'Refused calls since the start that were counted and not kept.',
        () => refusedCalls.dropped,
      )
    },
  }
}

function spoolObserver(
  log: Telemetry['log'],
  metrics: Telemetry['metrics'],
): Pick<IntakeObserver, 'spoolRefused' | 'spoolDead' | 'spoolSeen'> {
  const refused = metrics.counter({
    name: 'latchkey_webhooks_spool_refused_total',
    help: 'Events that could not be spooled while Postgres was away, so that providers were asked to send them again.',
    labels: ['reason'],
  })
  const dead = metrics.counter({
    name: 'latchkey_webhooks_spool_dead_total',
    help: 'Entries of the spool that were set aside: unreadable, or refused by Postgres for good.',
    labels: ['reason'],
  })
  for (const reason of ['away', 'volatile', 'full', 'share', 'unconfirmed']) refused.with(reason).inc(0)
  for (const reason of ['unreadable', 'refused']) dead.with(reason).inc(0)
  let seen: SpoolStats = { entries: 0, bytes: 0, oldestAgeMs: 0, deadEntries: 0, deadBytes: 0 }
  const { gauge } = unlabelled(metrics)
  gauge(
    'latchkey_webhooks_spool_entries_count',
    'Events that wait for Postgres in Redis.',
    () => seen.entries,
  )
  gauge('latchkey_webhooks_spool_bytes', 'Bytes of the spool, entries set aside included.', () => seen.bytes)
  gauge(
    'latchkey_webhooks_spool_oldest_age_seconds',
    'Age of the oldest event in the spool.',
    () => seen.oldestAgeMs / 1000,
  )
  gauge(
    'latchkey_webhooks_spool_dead_count',
    'Entries of the spool that were set aside.',
    () => seen.deadEntries,
  )
  return {
    spoolRefused(reason, events, cause) {
      refused.with(reason).inc(events)
      if (cause !== undefined) log.error({ reason, cause }, 'the spool failed in an unexpected way')
    },
    spoolDead({ eventId, reason }) {
      dead.with(reason).inc()
      log.error({ event: eventId, reason }, 'an event of the spool was set aside: look at it in Redis')
    },
    spoolSeen(stats) {
      seen = stats
    },
  }
}

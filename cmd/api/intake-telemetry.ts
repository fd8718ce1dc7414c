import type { DirectoryTenant, ProviderName } from '#internal/tenants/index.ts'
import type { CallOutcome, EventQueue, RefusedCalls } from '#internal/webhooks/index.ts'
import type { Telemetry } from './telemetry.ts'

/** What the intake tells about itself. */
export interface IntakeObserver {
  called(provider: ProviderName, outcome: CallOutcome): void
  /** A statement failed: Postgres is away, or it will never take this event. */
  storeFailed(error: unknown, kind: 'unavailable' | 'refused'): void
  unreadableSecrets(tenant: DirectoryTenant, provider: ProviderName): void
  /** Has gauges read from these when they are scraped. */
  watch(parts: { readonly queue: EventQueue; readonly refusedCalls: RefusedCalls }): void
}

/** Failed statements come many a second while Postgres is away; one line a second says as much. */
const logMs = 1000

/** Declares the metrics of the intake. */
export function createIntakeObserver({ log, metrics }: Telemetry): IntakeObserver {
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
  const unreadable = metrics.counter({
    name: 'latchkey_webhooks_unreadable_secrets_total',
    help: 'Times that a tenant’s secrets could not be opened with the key ring.',
    labels: ['provider'],
  })
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
    unreadableSecrets(tenant, provider) {
      unreadable.with(provider).inc()
      log.error(
        { tenant: tenant.id, provider },
        'a tenant’s secrets cannot be opened: is a key of the ring missing?',
      )
    },
    watch({ queue, refusedCalls }) {
      const gauge = (name: string, help: string, read: () => number) =>
        metrics.gauge({ name, help, labels: [], collect: (each) => each.with().set(read()) })
      gauge('latchkey_webhooks_pending_count', 'Events whose calls wait for a commit.', () => queue.size)
      gauge(
        'latchkey_webhooks_refused_dropped_count',
        'Refused calls since the start that were counted and not kept.',
        () => refusedCalls.dropped,
      )
    },
  }
}

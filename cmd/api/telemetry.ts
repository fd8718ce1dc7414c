import type { Core } from '#cmd/serving/core.ts'
import { openLoop } from '#cmd/serving/loop.ts'
import { createLogSampler } from '#cmd/serving/settings.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import { createRequestObserver, type RequestEvent } from '#internal/http/index.ts'
import type { CheckOutcome, Waiters } from '#internal/records/index.ts'
import { createLineLimit, type Metrics, unlabelled } from '#internal/telemetry/index.ts'
import { type Directory, emittedKindOf } from '#internal/tenants/index.ts'
import type { SoftCrossing } from '#internal/usage/index.ts'

/** Host of a process that serves records or reads record usage. */
export type ApiHost = ReturnType<typeof withRecordEvents>

/** Adds the metrics of records and meters to a host. Call once per process. */
export function withRecordEvents(host: Host) {
  const { log, metrics } = host
  const { counter } = unlabelled(metrics)
  const checks = metrics.counter({
    name: 'latchkey_records_checks_total',
    help: 'Completed record checks by outcome. Checks in a batch count individually.',
    labels: ['outcome'],
  })
  const epochsLost = counter(
    'latchkey_records_epochs_lost_total',
    'Number of times that Redis lost the records of a tenant.',
  )
  const durableFailures = counter(
    'latchkey_records_postgres_failures_total',
    'Failed transactions of records in Postgres. Their callers get 503.',
  )
  const mayLog = createLineLimit({ perSecondMax: 1, clock: systemClock })
  const flushFailures = counter('latchkey_usage_flush_failures_total', 'Failed usage rollups.')
  const softCrossings = metrics.counter({
    name: 'latchkey_usage_soft_crossings_total',
    help: 'Crossed soft limits, once per tenant and period. All emitted kinds share the label `emitted`.',
    labels: ['limit'],
  })
  return {
    ...host,
    /** Counts one check. In a batch, called once for each check. */
    checked: (outcome: CheckOutcome) => checks.with(outcome).inc(),
    epochLost(tenantId: TenantId) {
      epochsLost.inc()
      log.error(
        { tenant: tenantId },
        'Redis lost the records of a tenant; completed operations may run again',
      )
    },
    durableFailed(cause: unknown) {
      durableFailures.inc()
      if (mayLog('records'))
        log.warn({ cause }, 'records in Postgres: a transaction failed, its calls get 503')
    },
    flushFailed: () => flushFailures.inc(),
    /** Reports that a tenant crossed a soft limit. Only one process calls it, once per period. */
    softLimitCrossed({ tenantId, limit, periodMs, used, soft }: SoftCrossing) {
      softCrossings.with(emittedKindOf(limit) === undefined ? limit : 'emitted').inc()
      const period = new Date(periodMs).toISOString()
      log.warn({ tenant: tenantId, limit, period, used, soft }, 'tenant crossed a soft limit')
    },
  }
}

export const apiAreas = {
  records: ['/v1/record'],
  webhooks: ['/v1/webhooks/', '/v1/t/'],
  simulations: ['/v1/simulate/'],
}

/** Returns a function that logs finished requests, and counts them by route and by tenant. Call once per process. */
export function observeRequests(
  { log, metrics }: Host,
  { directory, settings }: Pick<Core, 'directory' | 'settings'>,
): (event: RequestEvent, cause: unknown) => void {
  return createRequestObserver({
    log,
    metrics,
    clock: systemClock,
    sampler: createLogSampler(settings),
    tenants: { slugOf: (id) => directory.findTenantById(id)?.slug, areas: apiAreas },
  })
}

export function registerGauges(metrics: Metrics, directory: Directory, waiters: Waiters): void {
  const { gauge } = unlabelled(metrics)
  gauge('latchkey_records_waiters_count', 'Checks waiting for a locked key.', () => waiters.count)
  gauge(
    'latchkey_tenants_directory_count',
    'Tenants in the in-memory directory.',
    () => directory.stats().tenants,
  )
  gauge(
    'latchkey_tenants_directory_overfull_count',
    '1 while there are more tenants than the in-memory directory holds, so that calls of the excess tenants are rejected; otherwise 0.',
    () => (directory.stats().overfull ? 1 : 0),
  )
  gauge(
    'latchkey_tenants_directory_age_seconds',
    'Seconds since the tenant directory was last read from Postgres; -1 before the first read.',
    () => {
      const ageMs = directory.ageMs(Date.now())
      return Number.isFinite(ageMs) ? ageMs / 1000 : -1
    },
  )
}

const readinessMs = 5000
const turnMsMax = 5000

/**
 * Evaluates readiness every 5 s until the scope closes, even without probes. Some checks cannot fail after their first success; with these
 * evaluations, they succeed before a store becomes unavailable.
 */
export async function startReadiness(host: Host): Promise<void> {
  await openLoop(host, {
    name: 'readiness',
    intervalMs: readinessMs,
    turnMsMax,
    runOnce: async () => void (await host.health.readiness()),
    onError: (cause, failures) => host.log.debug({ failures, cause }, 'readiness evaluation failed'),
  })
}

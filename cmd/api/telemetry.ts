import {
  createProcessTelemetry,
  type ProcessTelemetry,
  type TelemetryOptions,
} from '#cmd/serving/telemetry.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Traced } from '#internal/http/index.ts'
import type { CheckOutcome, Waiters } from '#internal/records/index.ts'
import { type Metrics, type OwnedLogger, type Tracing, unlabelled } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { SoftCrossing } from '#internal/usage/index.ts'

/** What the API tells about itself. */
export interface Telemetry extends ProcessTelemetry {
  /** A check was answered, by itself or in a batch. */
  checked(outcome: CheckOutcome): void
  /** Redis lost a tenant's records: finished operations may run again. */
  epochLost(tenantId: TenantId): void
  /** A roll-up of usage failed. */
  flushFailed(): void
  /** A tenant has reached a soft limit: told by one process, once a period. */
  softLimitCrossed(crossing: SoftCrossing): void
}

/** Makes log, metrics, traces and health of the API. */
export async function createTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  return withRecordEvents(await createProcessTelemetry(options))
}

/** Adds what only the API tells. To be called once for a process: it declares metrics. */
export function withRecordEvents(telemetry: ProcessTelemetry): Telemetry {
  return { ...telemetry, ...recordEvents(telemetry.log, telemetry.metrics) }
}

function recordEvents(
  log: OwnedLogger,
  metrics: Metrics,
): Pick<Telemetry, 'checked' | 'epochLost' | 'flushFailed' | 'softLimitCrossed'> {
  const { counter } = unlabelled(metrics)
  const checks = metrics.counter({
    name: 'latchkey_records_checks_total',
    help: 'Answered checks by outcome, those in a batch each.',
    labels: ['outcome'],
  })
  const epochsLost = counter('latchkey_records_epochs_lost_total', 'Tenants whose records Redis has lost.')
  const flushFailures = counter('latchkey_usage_flush_failures_total', 'Roll-ups of usage that failed.')
  const softCrossings = metrics.counter({
    name: 'latchkey_usage_soft_crossings_total',
    help: 'Soft limits that tenants have reached, once for each tenant and period.',
    labels: ['limit'],
  })
  return {
    checked: (outcome) => checks.with(outcome).inc(),
    epochLost(tenantId) {
      epochsLost.inc()
      log.error({ tenant: tenantId }, 'Redis lost the records of a tenant: finished operations may run again')
    },
    flushFailed: () => flushFailures.inc(),
    softLimitCrossed({ tenantId, limit, periodMs, used, soft }) {
      softCrossings.with(limit).inc()
      const period = new Date(periodMs).toISOString()
      log.warn({ tenant: tenantId, limit, period, used, soft }, 'a tenant has reached a soft limit')
    },
  }
}

/** Gauges that are read when they are scraped. */
export function registerGauges(metrics: Metrics, directory: Directory, waiters: Waiters): void {
  const { gauge } = unlabelled(metrics)
  gauge('latchkey_records_waiters_count', 'Checks that wait for a busy key.', () => waiters.count)
  gauge('latchkey_tenants_directory_count', 'Tenants in memory.', () => directory.stats().tenants)
  gauge(
    'latchkey_tenants_directory_overfull_count',
    '1 while there are more tenants than are held in memory: those over the bound get no answer. Otherwise 0.',
    () => (directory.stats().overfull ? 1 : 0),
  )
  gauge(
    'latchkey_tenants_directory_age_seconds',
    'Time since the tenants were last compared with Postgres.',
    () => {
      const ageMs = directory.ageMs(Date.now())
      return Number.isFinite(ageMs) ? ageMs / 1000 : -1
    },
  )
}

/** Runs a request's handler in a server span that continues the caller's trace. */
export function traced(tracing: Tracing): Traced {
  return (name, traceparent, work) => tracing.span(name, { kind: 'server', traceparent }, work)
}

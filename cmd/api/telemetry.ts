import { systemClock, type TenantId } from '#internal/base/index.ts'
import type { Traced } from '#internal/http/index.ts'
import type { CheckOutcome, Waiters } from '#internal/records/index.ts'
import type { RedisFailure } from '#internal/storage/index.ts'
import {
  createHealth,
  createLogger,
  createMetrics,
  createTracing,
  type Health,
  type LogDestination,
  type LogLevel,
  type Metrics,
  type OwnedLogger,
  type Tracing,
} from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'

/** What every process that serves tells about itself. */
export interface ProcessTelemetry {
  readonly log: OwnedLogger
  readonly metrics: Metrics
  readonly tracing: Tracing
  readonly health: Health
  /** A connection to Redis failed. */
  redisError(error: unknown): void
  /** A call of Redis got no answer. */
  redisRefused(reason: RedisFailure): void
}

/** What the API tells about itself. */
export interface Telemetry extends ProcessTelemetry {
  /** A check was answered, by itself or in a batch. */
  checked(outcome: CheckOutcome): void
  /** Redis lost a tenant's records: finished operations may run again. */
  epochLost(tenantId: TenantId): void
  /** A roll-up of usage failed. */
  flushFailed(): void
}

/** What telemetry is made with. */
export interface TelemetryOptions {
  readonly service: string
  readonly version: string
  readonly logLevel: LogLevel
  /** Default standard output. */
  readonly logDestination?: LogDestination
  readonly otlpEndpoint?: string | undefined
  readonly otlpHeaders?: Readonly<Record<string, string>> | undefined
  readonly otelServiceName?: string | undefined
  readonly otelSamplerRatio?: number
}

/** Connection errors come many a second while Redis is away; one line a second says as much. */
const redisErrorLogMs = 1000

/** Makes log, metrics, traces and health of the API. */
export async function createTelemetry(options: TelemetryOptions): Promise<Telemetry> {
  const telemetry = await createProcessTelemetry(options)
  return { ...telemetry, ...recordEvents(telemetry.log, telemetry.metrics) }
}

/** Makes log, metrics, traces and health of any process. */
export async function createProcessTelemetry(options: TelemetryOptions): Promise<ProcessTelemetry> {
  const { service, version } = options
  const log = createLogger({
    level: options.logLevel,
    service,
    version,
    ...(options.logDestination && { destination: options.logDestination }),
  })
  const metrics = createMetrics({ service, version })
  const tracing = await createTracing({
    endpoint: options.otlpEndpoint,
    headers: options.otlpHeaders,
    serviceName: options.otelServiceName ?? service,
    version,
    ...(options.otelSamplerRatio !== undefined && { sampleRatio: options.otelSamplerRatio }),
    onLost: (spans, cause) => log.warn({ spans, cause }, 'spans were not sent'),
  })
  return { log, metrics, tracing, health: createHealth({ clock: systemClock }), ...storeEvents(log, metrics) }
}

function storeEvents(
  log: OwnedLogger,
  metrics: Metrics,
): Pick<ProcessTelemetry, 'redisError' | 'redisRefused'> {
  const redisErrors = metrics
    .counter({
      name: 'latchkey_storage_redis_connection_errors_total',
      help: 'Failed connections to Redis.',
      labels: [],
    })
    .with()
  const redisFailures = metrics.counter({
    name: 'latchkey_storage_redis_failures_total',
    help: 'Calls of Redis that got no answer, by reason.',
    labels: ['reason'],
  })
  let loggedMs = Number.NEGATIVE_INFINITY
  return {
    redisError(cause) {
      redisErrors.inc()
      if (performance.now() - loggedMs < redisErrorLogMs) return
      loggedMs = performance.now()
      log.warn({ cause }, 'Redis cannot be reached')
    },
    redisRefused: (reason) => redisFailures.with(reason).inc(),
  }
}

function recordEvents(
  log: OwnedLogger,
  metrics: Metrics,
): Pick<Telemetry, 'checked' | 'epochLost' | 'flushFailed'> {
  const counter = (name: string, help: string) => metrics.counter({ name, help, labels: [] }).with()
  const checks = metrics.counter({
    name: 'latchkey_records_checks_total',
    help: 'Answered checks by outcome, those in a batch each.',
    labels: ['outcome'],
  })
  const epochsLost = counter('latchkey_records_epochs_lost_total', 'Tenants whose records Redis has lost.')
  const flushFailures = counter('latchkey_usage_flush_failures_total', 'Roll-ups of usage that failed.')
  return {
    checked: (outcome) => checks.with(outcome).inc(),
    epochLost(tenantId) {
      epochsLost.inc()
      log.error({ tenant: tenantId }, 'Redis lost the records of a tenant: finished operations may run again')
    },
    flushFailed: () => flushFailures.inc(),
  }
}

/** Gauges that are read when they are scraped. */
export function registerGauges(metrics: Metrics, directory: Directory, waiters: Waiters): void {
  const gauge = (name: string, help: string, read: () => number) =>
    metrics.gauge({ name, help, labels: [], collect: (each) => each.with().set(read()) })
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

import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
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
  unlabelled,
} from '#internal/telemetry/index.ts'
import { type Watched, watchParts } from './watched.ts'

/** What every process that serves tells about itself. */
export interface ProcessTelemetry extends Watched {
  readonly log: OwnedLogger
  readonly metrics: Metrics
  readonly tracing: Tracing
  readonly health: Health
  /** A connection to Redis failed. */
  redisError(error: unknown): void
  /** A call of Redis got no answer. */
  redisRefused(reason: RedisFailure): void
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
const tracesCloseMs = 2000

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
  const health = createHealth({ clock: systemClock })
  return { log, metrics, tracing, health, ...storeEvents(log, metrics), ...watchParts(metrics, health) }
}

/** Has the spans that are not sent yet go out when the scope ends: to be opened first, so that it closes last. */
export async function openTraces(
  { tracing }: Pick<ProcessTelemetry, 'tracing'>,
  scope: Scope,
): Promise<void> {
  await scope.open({
    name: 'traces',
    open: () => tracing,
    close: (opened) => opened.close(tracesCloseMs),
  })
}

function storeEvents(
  log: OwnedLogger,
  metrics: Metrics,
): Pick<ProcessTelemetry, 'redisError' | 'redisRefused'> {
  const redisErrors = unlabelled(metrics).counter(
    'latchkey_storage_redis_connection_errors_total',
    'Failed connections to Redis.',
  )
  const redisFailures = metrics.counter({
    name: 'latchkey_storage_redis_failures_total',
    help: 'Calls of Redis that got no answer, by reason.',
    labels: ['reason'],
  })
  // Shown as 0 before the first one, so that the first is a rise.
  for (const reason of ['disconnected', 'timeout', 'full', 'refused', 'overloaded'])
    redisFailures.with(reason).inc(0)
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

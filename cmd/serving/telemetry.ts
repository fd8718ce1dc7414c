import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Pool, RedisFailure } from '#internal/storage/index.ts'
import {
  createHealth,
  createLineLimit,
  createLogger,
  createMetrics,
  createTracing,
  type Health,
  type LogDestination,
  type LogLevel,
  type Metrics,
  type OwnedLogger,
  unlabelled,
} from '#internal/telemetry/index.ts'

export type ProcessTelemetry = Awaited<ReturnType<typeof createProcessTelemetry>>

/** A running process: its telemetry, and the scope that closes its resources. */
export interface Host extends ProcessTelemetry {
  readonly scope: Scope
}

const tracesCloseMs = 2000

/** Creates the logger, metrics, tracing and health checks of a process. Call once per process. */
export async function createProcessTelemetry(options: {
  readonly service: string
  readonly version: string
  readonly logLevel: LogLevel
  /** Default: standard output. */
  readonly logDestination?: LogDestination
  readonly otlpEndpoint?: string | undefined
  readonly otlpHeaders?: Readonly<Record<string, string>> | undefined
  readonly otelServiceName?: string | undefined
  readonly otelSamplerRatio?: number
}) {
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
    onLost: (spans, cause) => log.warn({ spans, cause }, 'trace export lost spans'),
  })
  const health = createHealth({ clock: systemClock })
  return { log, metrics, tracing, health, ...storeEvents(log, metrics), ...watchParts(metrics, health) }
}

/** Flushes unsent spans when the scope closes. Call this function first, because the scope closes the first resource last. */
export async function openTraces({ tracing, scope }: Pick<Host, 'tracing' | 'scope'>): Promise<void> {
  await scope.open({
    name: 'traces',
    open: () => tracing,
    close: (opened) => opened.close(tracesCloseMs),
  })
}

function storeEvents(log: OwnedLogger, metrics: Metrics) {
  const redisErrors = unlabelled(metrics).counter(
    'latchkey_storage_redis_connection_errors_total',
    'Failed connections to Redis.',
  )
  const redisFailures = metrics.counter({
    name: 'latchkey_storage_redis_failures_total',
    help: 'Redis commands without a reply, by reason.',
    labels: ['reason'],
  })
  // Exposes the series as 0 from the start, so that `rate()` sees the first increment.
  for (const reason of ['disconnected', 'timeout', 'full', 'refused', 'overloaded'])
    redisFailures.with(reason).inc(0)
  // Limits the log lines, because many errors per second occur while Redis is unreachable.
  const mayLog = createLineLimit({ perSecondMax: 1, clock: systemClock })
  return {
    redisError(cause: unknown) {
      redisErrors.inc()
      if (mayLog('connection')) log.warn({ cause }, 'Redis connection failed')
    },
    redisRefused: (reason: RedisFailure) => redisFailures.with(reason).inc(),
  }
}

/** Declares the metrics of loops and pools. Call once per process. */
export function watchParts(metrics: Metrics, health: Health) {
  watchLoops(metrics, health)
  const failures = metrics.counter({
    name: 'latchkey_process_loop_failures_total',
    help: 'Failed runs of background loops. Each run is retried.',
    labels: ['loop'],
  })
  const broken = metrics.counter({
    name: 'latchkey_storage_postgres_connection_errors_total',
    help: 'Broken idle connections to Postgres.',
    labels: ['pool'],
  })
  const watchPool = watchPools(metrics)
  return {
    /** Counts failed runs of a loop. A count of 0 declares the loop's series. */
    loopFailed: (loop: string, turns = 1) => failures.with(loop).inc(turns),
    connectionBroke: (pool: string) => broken.with(pool).inc(),
    /** Registers a pool whose state is read at each scrape. Replaces a pool with the same name. */
    watchPool(name: string, pool: Pool, connectionsMax: number) {
      watchPool(name, pool, connectionsMax)
      // Exposes the series as 0 from the start, so that `rate()` sees the first increment.
      broken.with(name).inc(0)
    },
  }
}

function watchLoops(metrics: Metrics, health: Health): void {
  const shown = new Set<string>()
  metrics.gauge({
    name: 'latchkey_process_loop_silence_ratio',
    help: 'Time since the last run of a background loop divided by the allowed maximum. Liveness fails above 1.',
    labels: ['loop'],
    collect: (gauge) => {
      for (const loop of shown) gauge.with(loop).set(0)
      const longest = new Map<string, number>()
      for (const { name, silentMs, silentMsMax } of health.heartbeats()) {
        // All reflectors share one series, because their names contain namespaces.
        const loop = name.startsWith('reflector ') ? 'reflectors' : name
        longest.set(loop, Math.max(longest.get(loop) ?? 0, silentMs / silentMsMax))
      }
      for (const [loop, ratio] of longest) {
        shown.add(loop)
        gauge.with(loop).set(ratio)
      }
    },
  })
}

function watchPools(metrics: Metrics): (name: string, pool: Pool, connectionsMax: number) => void {
  const pools = new Map<string, { readonly pool: Pool; readonly connectionsMax: number }>()
  metrics.gauge({
    name: 'latchkey_storage_pool_connections_count',
    help: 'Connections to Postgres by pool and state: used, idle.',
    labels: ['pool', 'state'],
    collect: (gauge) => {
      for (const [name, { pool }] of pools) {
        gauge.with(name, 'used').set(pool.totalCount - pool.idleCount)
        gauge.with(name, 'idle').set(pool.idleCount)
      }
    },
  })
  metrics.gauge({
    name: 'latchkey_storage_pool_bound_count',
    help: 'Maximum connections of a Postgres pool.',
    labels: ['pool'],
    collect: (gauge) => {
      for (const [name, { connectionsMax }] of pools) gauge.with(name).set(connectionsMax)
    },
  })
  metrics.gauge({
    name: 'latchkey_storage_pool_waiting_count',
    help: 'Statements waiting for a connection of a Postgres pool.',
    labels: ['pool'],
    collect: (gauge) => {
      for (const [name, { pool }] of pools) gauge.with(name).set(pool.waitingCount)
    },
  })
  return (name, pool, connectionsMax) => void pools.set(name, { pool, connectionsMax })
}

import type { ProcessTelemetry } from '#cmd/api/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createOpsServer, listen } from '#internal/http/index.ts'
import { type Scope, type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import { createPool, openRedis, type RedisConnection, schemaCheck } from '#internal/storage/index.ts'
import { createDirectory, type Directory, directoryChannel } from '#internal/tenants/index.ts'
import { type DeliveriesConfig, startDeliveries } from './deliveries.ts'
import { startPartitionsAhead } from './partitions-ahead.ts'

/** The settings that the forwarder needs. */
export type ForwarderConfig = Pick<Config<'forwarder'>, 'opsPort' | 'redisUrl'> &
  DeliveriesConfig & {
    /** The interface of the ops port; default all of them. */
    readonly hostname?: string
  }

/** A running forwarder. */
export interface RunningForwarder {
  /** The port that is listened on, also where the configured one was 0. */
  readonly opsPort: number
}

/** For the directory; deliveries have a pool of their own. */
const connectionsMax = 2
const statementMsMax = 5_000
const connectMsMax = 2_000
const subscribeMs = 5_000
const turnMsMax = 5_000

/** Opens the forwarder's parts in order: the ops port, stores, tenants, then deliveries. It has no public port. */
export async function startForwarder(
  config: ForwarderConfig,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<RunningForwarder> {
  const { log, metrics, health } = telemetry
  // The first of the checks, so that the ops port never answers "ready" for want of any.
  let started = false
  health.addCheck('deliveries', () => (started ? { ok: true } : { ok: false, reason: 'not started yet' }))
  const ops = await scope.open({
    name: 'ops port',
    open: () => listen(createOpsServer({ health, metrics }), config.opsPort, config.hostname),
    close: (server) => server.stop(true),
  })
  const pool = await scope.open({
    name: 'postgres',
    open: () =>
      createPool({
        url: config.databaseUrl,
        applicationName: 'latchkey-forwarder',
        connectionsMax,
        queryTimeoutMs: statementMsMax,
        connectTimeoutMs: connectMsMax,
        onIdleError: (error) => log.warn({ cause: error.message }, 'an idle connection to Postgres broke'),
      }),
    close: (opened) => opened.end(),
  })
  const redis = await scope.open({
    name: 'redis',
    open: () =>
      openRedis({ url: config.redisUrl, onError: telemetry.redisError, onRefused: telemetry.redisRefused }),
    close: (opened) => opened.close(),
  })
  const directory = await scope.open({
    name: 'tenants',
    open: async () => {
      const opened = createDirectory({ pool, clock: systemClock, log, health })
      await opened.start()
      return opened
    },
    close: (opened) => opened.stop(),
  })
  health.addCheck('tenants', () =>
    directory.hasSnapshot() ? { ok: true } : { ok: false, reason: 'the tenants have not been read yet' },
  )
  health.addCheck('schema', schemaCheck(pool))
  await scope.open({
    name: 'tenant news',
    open: () => subscribeLoop(telemetry, redis, directory),
    close: (loop) => loop.stop(),
  })
  await startPartitionsAhead(pool, telemetry, scope)
  await startDeliveries(config, { redis, directory }, telemetry, scope)
  started = true
  return { opsPort: ops.port }
}

/** Without Redis deliveries go on, a poll later: so it is no part of readiness. */
function subscribeLoop(
  { log, health }: ProcessTelemetry,
  redis: RedisConnection,
  directory: Directory,
): SupervisedLoop {
  let subscribed = false
  return superviseLoop({
    name: 'tenant news',
    intervalMs: subscribeMs,
    turnMsMax,
    runOnce: async () => {
      if (subscribed) return
      await redis.subscribe(directoryChannel, () => directory.notify())
      subscribed = true
    },
    onError: (error, failures) => log.debug({ failures, cause: error }, 'not subscribed to tenant news yet'),
    health,
  })
}

import { openLoop } from '#cmd/serving/loop.ts'
import { openRedisOf, type RedisSettings, redisOf } from '#cmd/serving/stores.ts'
import { type StoreBatchOptions, storeBatch } from '#internal/events/index.ts'
import { Drain, Spool } from '#internal/intake/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import type { IntakeConfig } from './intake.ts'
import type { IntakeObserver } from './intake-telemetry.ts'
import type { Telemetry } from './telemetry.ts'

/** Room for a write that waits for the disk and a replica. */
const deadlineMs = 1_500
const drainMs = 1_000
const drainTurnMsMax = 10_000
const drainBackoff = { firstMs: 200, maxMs: 5_000 }
const statsMs = 5_000

/**
 * Opens the spool that keeps intake open while Postgres is away, and starts what drains it. Its connection is its own, since
 * waiting for a replica holds up whatever is sent behind it.
 */
export async function startSpool(
  config: RedisSettings & Pick<IntakeConfig, 'redisSpoolDurable'>,
  storing: StoreBatchOptions,
  observer: IntakeObserver,
  telemetry: Telemetry,
  scope: Scope,
): Promise<Spool> {
  const redis = await openRedisOf('redis of the spool', { ...redisOf(config), deadlineMs }, telemetry, scope)
  const spool = new Spool({ redis, vouched: config.redisSpoolDurable, onRefused: observer.spoolRefused })
  await startDrain(redis, storing, observer, telemetry, scope)
  await openLoop(
    {
      name: 'spool figures',
      intervalMs: statsMs,
      turnMsMax: drainTurnMsMax,
      runOnce: async () => observer.spoolSeen(await spool.stats()),
      onError: (cause, failures) => telemetry.log.debug({ failures, cause }, 'the spool cannot be looked at'),
    },
    telemetry,
    scope,
  )
  return spool
}

async function startDrain(
  redis: RedisConnection,
  storing: StoreBatchOptions,
  observer: IntakeObserver,
  telemetry: Telemetry,
  scope: Scope,
): Promise<void> {
  const drain = new Drain({
    redis,
    storeBatch: (events) => storeBatch({ ...storing, requeues: false }, events),
    onDead: observer.spoolDead,
  })
  await openLoop(
    {
      name: 'spool drain',
      intervalMs: drainMs,
      turnMsMax: drainTurnMsMax,
      backoff: drainBackoff,
      runOnce: (signal) => drain.runOnce(signal),
      onError: (cause, failures) =>
        telemetry.log.debug({ failures, cause }, 'the spool could not be drained yet'),
    },
    telemetry,
    scope,
  )
}

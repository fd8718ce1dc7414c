import { openLoop, startSubscription } from '#cmd/serving/loop.ts'
import { limitNotifier, type OnNotified } from '#cmd/serving/notifications.ts'
import { systemClock } from '#internal/base/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { LimitsInForce, limitsChannel, Meter, type SoftCrossing } from '#internal/usage/index.ts'
import type { ApiHost } from './telemetry.ts'

export interface UsageParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly settings: SettingsWatch
  readonly onNotified: OnNotified
  /** Name of this process in the audit log. */
  readonly actor: string
}

export interface Usage {
  readonly meter: Meter
  readonly limits: LimitsInForce
  readonly onSoftCrossing: ApiHost['softLimitCrossed']
}

const turnMsMax = 5_000
const flushMs = 1_000
/**
 * Interval in ms between reads of the event counts. Short, so that the counts that decide whether a limit is reached are at most one second
 * old.
 */
const countMs = 250
const countBackoff = { firstMs: 200, maxMs: 1_000 }
const limitsMs = 900

/** Opens the meters and limits and starts their polling loops. */
export async function startUsage(host: ApiHost, parts: UsageParts): Promise<Usage> {
  const { pool, redis, directory, actor } = parts
  const limits = await openLimits(host, parts)
  const notify = limitNotifier(host, parts)
  const onSoftCrossing = (crossing: SoftCrossing) => {
    host.softLimitCrossed(crossing)
    notify(crossing)
  }
  const meter = new Meter({
    redis,
    pool,
    clock: systemClock,
    actor,
    onEpochLost: host.epochLost,
    onSoftCrossing,
    limitsOf: (tenantId) => {
      const tenant = directory.findTenantById(tenantId)
      return tenant && limits.of(tenant).all
    },
  })
  await openLoop(host, {
    name: 'usage roll-up',
    intervalMs: flushMs,
    turnMsMax,
    runOnce: () => meter.flush(),
    onError: (cause, failures) => {
      host.flushFailed()
      host.log.warn({ failures, cause }, 'usage rollup failed; retrying')
    },
    // If this last rollup fails, the remaining counts stay in Redis, and the next process that counts usage for the tenant rolls them up.
    lastTurn: () => meter.flush(),
  })
  unlabelled(host.metrics).gauge(
    'latchkey_usage_uncounted_events_count',
    'Events since the start that no meter counts, because too many tenants had events waiting for Redis.',
    () => meter.events.uncounted,
  )
  // This loop is opened after the rollup loop, so that it closes first and the last rollup includes the last event counts.
  await openLoop(host, {
    name: 'event counts',
    intervalMs: countMs,
    turnMsMax,
    backoff: countBackoff,
    runOnce: () => meter.events.refresh(),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'event counts could not be written; retrying'),
    lastTurn: () => meter.events.refresh(),
  })
  return { meter, limits, onSoftCrossing }
}

async function openLimits(host: ApiHost, { pool, redis, settings }: UsageParts): Promise<LimitsInForce> {
  const limits = new LimitsInForce({ pool, clock: systemClock, settings })
  // Loads the limits once before calls are accepted, if Postgres is reachable.
  await limits.look().catch(() => undefined)
  const loop = await openLoop(host, {
    name: 'limit overrides',
    intervalMs: limitsMs,
    turnMsMax,
    backoff: countBackoff,
    runOnce: () => limits.look(),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'limit overrides read failed; the last ones apply'),
  })
  await startSubscription(host, redis, {
    name: 'limits subscription',
    channel: limitsChannel,
    onMessage: () => loop.wake(),
  })
  return limits
}

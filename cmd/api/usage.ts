import { openLoop, startSubscription } from '#cmd/serving/loop.ts'
import { systemClock } from '#internal/base/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { EventMeter, LimitsInForce, limitsChannel, Meter } from '#internal/usage/index.ts'
import type { ApiHost } from './telemetry.ts'

/** Dependencies of `startUsage`. */
export interface UsageParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly settings: SettingsWatch
}

/** Meters and limits of a process. */
export interface Usage {
  readonly meter: Meter
  readonly eventMeter: EventMeter
  readonly limits: LimitsInForce
}

const turnMsMax = 5_000
const flushMs = 1_000
/** Counts that decide about events are to be at most a second old, and a process that is killed loses what it had noted. */
const countMs = 250
const countBackoff = { firstMs: 200, maxMs: 1_000 }
const limitsMs = 900

/** Puts meters and limits together and starts what runs behind them. */
export async function startUsage(host: ApiHost, parts: UsageParts): Promise<Usage> {
  const { pool, redis, directory } = parts
  const limits = await openLimits(host, parts)
  const meter = new Meter({
    redis,
    pool,
    clock: systemClock,
    onEpochLost: host.epochLost,
    onSoftCrossing: host.softLimitCrossed,
    limitsOf: (tenantId) => {
      const tenant = directory.findTenantById(tenantId)
      return tenant && limits.of(tenant).all
    },
  })
  await openRollUp(host, meter)
  const eventMeter = new EventMeter({
    redis,
    pool,
    clock: systemClock,
    markUsed: (tenantId) => meter.markUsed(tenantId),
  })
  await openEventCounts(host, eventMeter)
  return { meter, eventMeter, limits }
}

async function openLimits(host: ApiHost, { pool, redis, settings }: UsageParts): Promise<LimitsInForce> {
  const limits = new LimitsInForce({ pool, clock: systemClock, defaults: () => settings.current.limits })
  // Before the first call is answered, where Postgres is there.
  await limits.look().catch(() => undefined)
  const loop = await openLoop(host, {
    name: 'limit overrides',
    intervalMs: limitsMs,
    turnMsMax,
    backoff: countBackoff,
    runOnce: () => limits.look(),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'overrides of limits could not be read, they stay as they were'),
  })
  await startSubscription(host, redis, {
    name: 'limit news',
    channel: limitsChannel,
    onMessage: () => loop.wake(),
  })
  return limits
}

async function openRollUp(host: ApiHost, meter: Meter): Promise<void> {
  await openLoop(host, {
    name: 'usage roll-up',
    intervalMs: flushMs,
    turnMsMax,
    runOnce: () => meter.flush(),
    onError: (error, failures) => {
      host.flushFailed()
      host.log.warn({ failures, cause: error }, 'usage could not be rolled up, trying again')
    },
    // What was counted since the last turn; when it fails the next process to count for a tenant makes up for it.
    lastTurn: () => meter.flush(),
  })
}

/** Opened after the roll-up, so that what is counted at the end is rolled up. */
async function openEventCounts(host: ApiHost, eventMeter: EventMeter): Promise<void> {
  unlabelled(host.metrics).gauge(
    'latchkey_usage_uncounted_events_count',
    'Events since the start that no meter counts: more tenants waited for Redis than there is room for.',
    () => eventMeter.uncounted,
  )
  await openLoop(host, {
    name: 'event counts',
    intervalMs: countMs,
    turnMsMax,
    backoff: countBackoff,
    runOnce: () => eventMeter.refresh(),
    onError: (cause, failures) => host.log.warn({ failures, cause }, 'events wait to be counted'),
    lastTurn: () => eventMeter.refresh(),
  })
}

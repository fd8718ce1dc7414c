import { openLoop, startSubscription } from '#cmd/serving/loop.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { EventMeter, LimitsInForce, limitsChannel, Meter } from '#internal/usage/index.ts'
import type { Telemetry } from './telemetry.ts'

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
export async function startUsage(parts: UsageParts, telemetry: Telemetry, scope: Scope): Promise<Usage> {
  const { pool, redis, directory } = parts
  const limits = await openLimits(parts, telemetry, scope)
  const meter = new Meter({
    redis,
    pool,
    clock: systemClock,
    onEpochLost: telemetry.epochLost,
    onSoftCrossing: telemetry.softLimitCrossed,
    limitsOf: (tenantId) => {
      const tenant = directory.findTenantById(tenantId)
      return tenant && limits.of(tenant).all
    },
  })
  await openRollUp(meter, telemetry, scope)
  const eventMeter = new EventMeter({
    redis,
    pool,
    clock: systemClock,
    markUsed: (tenantId) => meter.markUsed(tenantId),
  })
  await openEventCounts(eventMeter, telemetry, scope)
  return { meter, eventMeter, limits }
}

async function openLimits(
  { pool, redis, settings }: UsageParts,
  telemetry: Telemetry,
  scope: Scope,
): Promise<LimitsInForce> {
  const limits = new LimitsInForce({ pool, clock: systemClock, defaults: () => settings.current.limits })
  // Before the first call is answered, where Postgres is there.
  await limits.look().catch(() => undefined)
  const loop = await openLoop(
    {
      name: 'limit overrides',
      intervalMs: limitsMs,
      turnMsMax,
      backoff: countBackoff,
      runOnce: () => limits.look(),
      onError: (cause, failures) =>
        telemetry.log.warn(
          { failures, cause },
          'overrides of limits could not be read, they stay as they were',
        ),
    },
    telemetry,
    scope,
  )
  await startSubscription(
    {
      name: 'limit news',
      channel: limitsChannel,
      onMessage: () => loop.wake(),
      missing: 'not subscribed to limit news yet',
    },
    redis,
    telemetry,
    scope,
  )
  return limits
}

async function openRollUp(meter: Meter, telemetry: Telemetry, scope: Scope): Promise<void> {
  await openLoop(
    {
      name: 'usage roll-up',
      intervalMs: flushMs,
      turnMsMax,
      runOnce: () => meter.flush(),
      onError: (error, failures) => {
        telemetry.flushFailed()
        telemetry.log.warn({ failures, cause: error }, 'usage could not be rolled up, trying again')
      },
      // What was counted since the last turn; when it fails the next process to count for a tenant makes up for it.
      lastTurn: () => meter.flush(),
    },
    telemetry,
    scope,
  )
}

/** Opened after the roll-up, so that what is counted at the end is rolled up. */
async function openEventCounts(eventMeter: EventMeter, telemetry: Telemetry, scope: Scope): Promise<void> {
  unlabelled(telemetry.metrics).gauge(
    'latchkey_usage_uncounted_events_count',
    'Events since the start that no meter counts: more tenants waited for Redis than there is room for.',
    () => eventMeter.uncounted,
  )
  await openLoop(
    {
      name: 'event counts',
      intervalMs: countMs,
      turnMsMax,
      backoff: countBackoff,
      runOnce: () => eventMeter.refresh(),
      onError: (cause, failures) => telemetry.log.warn({ failures, cause }, 'events wait to be counted'),
      lastTurn: () => eventMeter.refresh(),
    },
    telemetry,
    scope,
  )
}

import { type PausedForwarding, readQueueDepth } from '#internal/deliveries/index.ts'
import type { FigureTally } from '#internal/figures/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import { openLoop } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** What the queue's figures stand on. */
export interface QueueFigureParts {
  readonly pool: Pool
  readonly settings: SettingsWatch
  /** Gets what was seen, for the roll-ups: there the worst of a minute counts, whoever saw it. */
  readonly figures: FigureTally
}

const lookMs = 5_000
const turnMsMax = 5_000

/**
 * Shows in metrics how much waits to be delivered, read every 5 s for the scope's life: the same figures from every process that
 * does this. While Postgres is away the last ones stand.
 */
export async function startQueueFigures(
  { pool, settings, figures }: QueueFigureParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const gauges = queueGauges(telemetry.metrics)
  await openLoop(
    {
      ...{ name: 'delivery queue', intervalMs: lookMs, turnMsMax },
      runOnce: async () => {
        const depth = await readQueueDepth(pool, pausedBy(settings))
        gauges.due.with().set(depth.dueCount)
        gauges.oldest.with().set(depth.oldestAgeMs / 1000)
        gauges.suspended.with().set(depth.suspendedCount)
        gauges.open.with().set(depth.openBreakerCount)
        figures.noteQueue(depth)
      },
      onError: (cause, failures) =>
        telemetry.log.debug({ failures, cause }, 'the queue’s depth could not be read'),
    },
    telemetry,
    scope,
  )
}

/** What of forwarding stands still. As long as nobody knows whether it is paused, it is. */
export function pausedBy({ isRead, current }: SettingsWatch): PausedForwarding {
  return { all: !isRead || current.isForwardingPaused, tenants: current.forwardingPausedFor }
}

/** Nothing is shown before the first look. */
function queueGauges(metrics: Metrics) {
  const seen = (name: string, help: string) => metrics.gauge({ name, help, labels: [] })
  return {
    due: seen(
      'latchkey_deliveries_due_count',
      'Due deliveries of callbacks that may be called: exact to 10 000, estimated beyond. The same from every process.',
    ),
    oldest: seen(
      'latchkey_deliveries_oldest_age_seconds',
      'How long the one that is due longest has been so.',
    ),
    suspended: seen('latchkey_deliveries_suspended_count', 'Callbacks that are suspended.'),
    open: seen('latchkey_deliveries_breakers_open_count', 'Callbacks whose breaker is open.'),
  }
}

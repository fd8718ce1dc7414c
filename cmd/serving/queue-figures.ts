import { type Clock, systemClock } from '#internal/base/index.ts'
import { type PausedForwarding, type QueueDepth, readQueueDepth } from '#internal/events/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import type { FigureTally } from '#internal/usage/index.ts'
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
/** Two looks may fail, with the pauses between, before nobody knows any more. */
const knownMsMax = 30_000

/**
 * Shows in metrics how much waits to be delivered, read every 5 s for the scope's life: the same figures from every process that
 * does this. Nothing is shown before the first look, nor once none has succeeded for 30 s.
 */
export async function startQueueFigures(
  { pool, settings, figures }: QueueFigureParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const show = showQueue(telemetry.metrics)
  await openLoop(
    {
      ...{ name: 'delivery queue', intervalMs: lookMs, turnMsMax },
      runOnce: async () => {
        const depth = await readQueueDepth(pool, pausedBy(settings))
        show(depth)
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

/**
 * Declares the queue's gauges, and gives what takes each look at it. Whoever scales by them, or is woken, must not take what nobody
 * knows for an empty queue, nor for what it once was: without a look of the last 30 s they show no sample.
 */
export function showQueue(metrics: Metrics, clock: Clock = systemClock): (depth: QueueDepth) => void {
  let last: { readonly depth: QueueDepth; readonly atMs: number } | undefined
  const shown = (name: string, help: string, read: (depth: QueueDepth) => number) =>
    metrics.gauge({
      ...{ name, help, labels: [] },
      collect: (gauge) => {
        if (last === undefined || clock.now() - last.atMs > knownMsMax) gauge.with().hide()
        else gauge.with().set(read(last.depth))
      },
    })
  shown(
    'latchkey_deliveries_due_count',
    'Due deliveries of callbacks that may be called: exact to 10 000, estimated beyond. The same from every process.',
    ({ dueCount }) => dueCount,
  )
  shown(
    'latchkey_deliveries_oldest_age_seconds',
    'How long the one that is due longest has been so.',
    ({ oldestAgeMs }) => oldestAgeMs / 1000,
  )
  shown(
    'latchkey_deliveries_suspended_count',
    'Callbacks that are suspended.',
    ({ suspendedCount }) => suspendedCount,
  )
  shown(
    'latchkey_deliveries_breakers_open_count',
    'Callbacks whose breaker is open.',
    ({ openBreakerCount }) => openBreakerCount,
  )
  return (depth) => {
    last = { depth, atMs: clock.now() }
  }
}

import { type Clock, systemClock } from '#internal/base/index.ts'
import { pausedBy } from '#internal/delivery/index.ts'
import { type QueueDepth, readQueueDepth } from '#internal/events/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type Metrics, unlabelled } from '#internal/telemetry/index.ts'
import { StatsRecorder, StatsTally } from '#internal/usage/index.ts'
import { openLoop } from './loop.ts'
import type { Host } from './telemetry.ts'

const flushMs = 5_000
const flushTurnMsMax = 15_000
const flushBackoff = { firstMs: 1_000, maxMs: 15_000 }

/**
 * Creates the in-memory statistics of this process. Writes them to Postgres every 5 s and when the scope closes. Declares metrics; call
 * once per process.
 */
export async function startStats(host: Host, pool: Pool): Promise<StatsTally> {
  const { log, metrics } = host
  const { gauge } = unlabelled(metrics)
  const tally = new StatsTally(systemClock)
  gauge(
    'latchkey_usage_stats_waiting_count',
    'Statistics cells (one per tenant and minute) that are not yet written to Postgres.',
    () => tally.size,
  )
  gauge(
    'latchkey_usage_stats_dropped_count',
    'Outcomes missing from the statistics since the start because the in-memory buffer was full.',
    () => tally.dropped,
  )
  const recorder = new StatsRecorder({
    pool,
    tally,
    clock: systemClock,
    onRefused: (cells, cause) => log.error({ cells, cause }, 'Postgres rejected stats; dropped'),
  })
  await openLoop(host, {
    name: 'stats',
    intervalMs: flushMs,
    turnMsMax: flushTurnMsMax,
    backoff: flushBackoff,
    runOnce: () => recorder.flush(),
    onError: (cause, failures) => log.warn({ failures, cause }, 'stats flush failed; retrying'),
    lastTurn: () => recorder.flushAll(),
  })
  return tally
}

const lookMs = 5_000
const turnMsMax = 5_000
/** Maximum age in ms of a queue depth that is exposed. Long enough that two failed reads in a row hide nothing. */
const knownMsMax = 30_000

/**
 * Reads the queue depth every 5 s until the scope closes, and exposes it as gauges with the same values in every process. Exposes no sample
 * before the first read or later than 30 s after the last successful read.
 */
export async function startQueueStats(
  host: Host,
  {
    pool,
    settings,
    stats,
  }: {
    readonly pool: Pool
    readonly settings: SettingsWatch
    /** Receives each queue depth that was read. The statistics keep the maximum per minute over all processes. */
    readonly stats: StatsTally
  },
): Promise<void> {
  const show = showQueue(host.metrics)
  await openLoop(host, {
    name: 'delivery queue',
    intervalMs: lookMs,
    turnMsMax,
    runOnce: async () => {
      const depth = await readQueueDepth(pool, pausedBy(settings))
      show(depth)
      stats.noteQueue(depth)
    },
    onError: (cause, failures) => host.log.debug({ failures, cause }, 'queue depth read failed'),
  })
}

/**
 * Declares the queue gauges and returns the function that sets them. The gauges expose no sample if the last queue depth is older than 30
 * s, because autoscalers and alerts must not mistake an unknown depth for an empty queue.
 */
export function showQueue(metrics: Metrics, clock: Clock = systemClock): (depth: QueueDepth) => void {
  let last: { readonly depth: QueueDepth; readonly atMs: number } | undefined
  const shown = (name: string, help: string, read: (depth: QueueDepth) => number) =>
    metrics.gauge({
      name,
      help,
      labels: [],
      collect: (gauge) => {
        if (last === undefined || clock.now() - last.atMs > knownMsMax) gauge.with().hide()
        else gauge.with().set(read(last.depth))
      },
    })
  shown(
    'latchkey_events_due_count',
    'Due deliveries of callbacks that are neither paused, suspended nor behind an open circuit breaker; exact up to 10 000, estimated above. Same value from every process.',
    ({ dueCount }) => dueCount,
  )
  shown(
    'latchkey_events_due_age_seconds',
    'Age of the oldest due delivery, in seconds since it became due.',
    ({ oldestAgeMs }) => oldestAgeMs / 1000,
  )
  shown(
    'latchkey_events_callbacks_suspended_count',
    'Suspended callbacks.',
    ({ suspendedCount }) => suspendedCount,
  )
  shown(
    'latchkey_events_breakers_open_count',
    'Callbacks with an open circuit breaker.',
    ({ openBreakerCount }) => openBreakerCount,
  )
  return (depth) => {
    last = { depth, atMs: clock.now() }
  }
}

import { openLoop } from '#cmd/serving/loop.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { forgetAudit, forgetSavedViews, forgetSessions } from '#internal/access/index.ts'
import { type Clock, systemClock } from '#internal/base/index.ts'
import {
  createQueueExpiry,
  forgetDedupeKeys,
  forgetFailedDeliveries,
  forgetFeedMarks,
  forgetWaitingPulls,
} from '#internal/events/index.ts'
import type { SupervisedLoop } from '#internal/process/index.ts'
import { forgetReplays } from '#internal/replays/index.ts'
import { forgetSimulations } from '#internal/simulations/index.ts'
import {
  ensurePartitionsAhead,
  type Pool,
  partitionedTables,
  type RetentionObserver,
  type RetentionStep,
  runRetention,
} from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import { forgetDeletedTenants, forgetSlugReservations } from '#internal/tenants/index.ts'
import {
  forgetEmissions,
  forgetHours,
  forgetStats,
  moveRecordHours,
  returnExpiredBytes,
  statsTables,
} from '#internal/usage/index.ts'

const retentionPool = {
  applicationName: 'latchkey-retention',
  /** One connection holds the advisory lock and drops partitions, one deletes rows in batches, one creates partitions. */
  connectionsMax: 3,
  queryTimeoutMs: 15_000,
}
const intervalMs = 300_000
/** Time limit of one retention run in ms. If expired rows remain, the next run starts immediately. */
const turnMsMax = 60_000
const backoff = { firstMs: 5_000, maxMs: intervalMs }

/**
 * Creates the partitions of the next days every hour, and deletes expired data every 5 minutes, both also at the start, until the scope
 * closes. Uses its own connections. Any number of processes can call this function: an advisory lock ensures that only one deletes at a
 * time.
 */
export async function startRetention(host: Host, settings: DatabaseSettings): Promise<void> {
  const pool = await openPostgres(host, 'postgres of retention', {
    ...retentionPool,
    ...databaseOf(settings),
  })
  await startPartitionsAhead(host, pool)
  const steps = retentionSteps(pool)
  const observer = createObserver(
    host,
    [...steps.before, ...steps.after].map(({ table }) => table),
  )
  const loop: SupervisedLoop = await openLoop(host, {
    name: 'retention',
    intervalMs,
    turnMsMax,
    backoff,
    runOnce: async (signal) => {
      const nowMs = await retentionNowMs(pool, systemClock)
      const result = await runRetention({ ...steps, pool, nowMs, signal, observer })
      if (result === 'more') loop.wake()
    },
    onError: (cause, failures) => host.log.warn({ failures, cause }, 'retention failed; retrying'),
  })
}

/** Returns the earlier of the times of this process and of Postgres, so that a single clock that is ahead deletes nothing too early. */
export async function retentionNowMs(pool: Pool, clock: Clock): Promise<number> {
  const { rows } = await pool.query<{ ms: number }>(
    'SELECT floor(extract(epoch FROM clock_timestamp()) * 1000)::float8 AS ms',
  )
  return Math.min(clock.now(), rows[0]?.ms ?? 0)
}

/** Returns the steps of the retention in the order of execution. */
export function retentionSteps(pool: Pool): {
  readonly before: readonly RetentionStep[]
  readonly after: readonly RetentionStep[]
} {
  const queue = createQueueExpiry()
  const step = (table: string, remove: (pool: Pool, nowMs: number) => ReturnType<typeof forgetAudit>) => ({
    table,
    removeBatch: (nowMs: number) => remove(pool, nowMs),
  })
  return {
    before: [step('deliveries_due', queue.removeBatch)],
    after: [
      step('dedupe_keys', forgetDedupeKeys),
      step('failed_deliveries', forgetFailedDeliveries),
      step('pulls_due', forgetWaitingPulls),
      step('feed_marks', forgetFeedMarks),
      step('replays', forgetReplays),
      step('simulations', forgetSimulations),
      step('record_hours', moveRecordHours),
      step('record_bytes', returnExpiredBytes),
      step('usage_hourly', forgetHours),
      step('usage_emissions', forgetEmissions),
      ...statsTables.map((table) => step(table, (of, nowMs) => forgetStats(of, table, nowMs))),
      step('slug_reservations', forgetSlugReservations),
      step('tenants', forgetDeletedTenants),
      step('audit', forgetAudit),
      step('sessions', forgetSessions),
      step('saved_views', forgetSavedViews),
    ],
  }
}

function createObserver({ log, metrics }: Host, tables: readonly string[]): RetentionObserver {
  const labelled = (name: string, help: string) => metrics.counter({ name, help, labels: ['table'] })
  const dropped = labelled('latchkey_storage_partitions_dropped_total', 'Dropped expired partitions.')
  const blocked = labelled(
    'latchkey_storage_partitions_blocked_total',
    'Expired partitions that were not dropped because they were in use. Each drop is retried.',
  )
  const removed = labelled('latchkey_storage_expired_rows_total', 'Deleted expired rows.')
  const failures = labelled('latchkey_storage_retention_failures_total', 'Failed retention steps.')
  // Exposes the series as 0 from the start, so that `rate()` sees the first increment.
  for (const table of partitionedTables)
    for (const each of [dropped, blocked, failures]) each.with(table).inc(0)
  for (const table of tables) for (const each of [removed, failures]) each.with(table).inc(0)
  let expiredAgeMs = 0
  unlabelled(metrics).gauge(
    'latchkey_storage_expired_partition_age_seconds',
    'Seconds since the oldest remaining partition expired; 0 if none is expired. Same value from every process.',
    () => expiredAgeMs / 1000,
  )
  return {
    partitionDropped({ table, day }, durationMs) {
      dropped.with(table).inc()
      log.info({ table, day, durationMs: Math.round(durationMs) }, 'expired partition dropped')
    },
    partitionBlocked({ table, day, state }) {
      blocked.with(table).inc()
      log.warn({ table, day, state }, 'expired partition in use; drop deferred')
    },
    rowsRemoved: (table, count) => removed.with(table).inc(count),
    failed(table, cause) {
      failures.with(table).inc()
      log.warn({ table, cause }, 'retention step failed; other steps continued')
    },
    expiredAgeSeen: (ageMs) => void (expiredAgeMs = ageMs),
  }
}

/** Interval in ms between runs. Partitions are created two days ahead, so several failed runs do no harm. */
const aheadIntervalMs = 3_600_000
/**
 * Time limit of one run in ms. If all partitions are missing, a run must create about a hundred tables; the next run creates those that are
 * still missing.
 */
const aheadTurnMsMax = 60_000

/** Creates the partitions of the next days at the start and every hour, until the scope closes. */
async function startPartitionsAhead(host: Host, pool: Pool): Promise<void> {
  const { log, metrics } = host
  let verifiedMs = systemClock.now()
  unlabelled(metrics).gauge(
    'latchkey_storage_partitions_ahead_age_seconds',
    'Seconds since the partitions of today and the next two days were last verified; before the first time, since the start.',
    () => Math.max(0, systemClock.now() - verifiedMs) / 1000,
  )
  await openLoop(host, {
    name: 'partitions ahead',
    intervalMs: aheadIntervalMs,
    turnMsMax: aheadTurnMsMax,
    runOnce: async (signal) => {
      const nowMs = systemClock.now()
      const made = await ensurePartitionsAhead(pool, nowMs, signal)
      verifiedMs = nowMs
      if (made > 0) log.info({ made }, 'partitions created ahead')
    },
    onError: (cause, failures) => log.warn({ failures, cause }, 'creating partitions ahead failed; retrying'),
  })
}

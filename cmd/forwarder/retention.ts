import { openLoop } from '#cmd/serving/loop.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { forgetSessions } from '#internal/access/index.ts'
import { systemClock } from '#internal/base/index.ts'
import { createQueueExpiry, forgetDedupeKeys, forgetFailedEvents } from '#internal/events/index.ts'
import type { Scope, SupervisedLoop } from '#internal/process/index.ts'
import { forgetReplays } from '#internal/replays/index.ts'
import { forgetSimulations } from '#internal/simulations/index.ts'
import {
  type Pool,
  partitionedTables,
  type RetentionObserver,
  type RetentionStep,
  runRetention,
} from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import { forgetAudit, forgetDeletedTenants, forgetSlugReservations } from '#internal/tenants/index.ts'
import { figureTables, forgetEmissions, forgetFigures, forgetHours } from '#internal/usage/index.ts'

/** What goes by time, but for partitions. */
export interface RetentionSteps {
  readonly before: readonly RetentionStep[]
  readonly after: readonly RetentionStep[]
}

const retentionPool = {
  applicationName: 'latchkey-retention',
  /** The session that holds the lock and drops, and one for the batches. */
  connectionsMax: 2,
  queryTimeoutMs: 15_000,
}
const intervalMs = 300_000
/** A turn that is cut short is followed by the next at once. */
const turnMsMax = 60_000
const backoff = { firstMs: 5_000, maxMs: intervalMs }

/**
 * Removes what is kept no longer, at once and then every five minutes, for the scope's life, on connections of its own. Any number
 * of processes may do this: one at a time works.
 */
export async function startRetention(
  settings: DatabaseSettings,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const pool = await openPostgres(
    'postgres of retention',
    { ...retentionPool, ...databaseOf(settings) },
    telemetry,
    scope,
  )
  const steps = retentionSteps(pool)
  const observer = createObserver(
    telemetry,
    [...steps.before, ...steps.after].map(({ table }) => table),
  )
  const loop: SupervisedLoop = await openLoop(
    {
      ...{ name: 'retention', intervalMs, turnMsMax, backoff },
      runOnce: async (signal) => {
        const result = await runRetention({ ...steps, pool, nowMs: systemClock.now(), signal, observer })
        if (result === 'more') loop.wake()
      },
      onError: (cause, failures) =>
        telemetry.log.warn({ failures, cause }, 'what is kept no longer could not be removed, trying again'),
    },
    telemetry,
    scope,
  )
}

/** All that goes by time beside partitions, in order. */
export function retentionSteps(pool: Pool): RetentionSteps {
  const queue = createQueueExpiry()
  const step = (table: string, remove: (pool: Pool, nowMs: number) => ReturnType<typeof forgetAudit>) => ({
    table,
    removeBatch: (nowMs: number) => remove(pool, nowMs),
  })
  return {
    before: [step('deliveries_due', queue.removeBatch)],
    after: [
      step('dedupe_keys', forgetDedupeKeys),
      step('failed_events', forgetFailedEvents),
      step('replays', forgetReplays),
      step('simulations', forgetSimulations),
      step('usage_hourly', forgetHours),
      step('usage_emissions', forgetEmissions),
      ...figureTables.map((table) => step(table, (of, nowMs) => forgetFigures(of, table, nowMs))),
      step('slug_reservations', forgetSlugReservations),
      step('tenants', forgetDeletedTenants),
      step('audit', forgetAudit),
      step('sessions', forgetSessions),
    ],
  }
}

function createObserver({ log, metrics }: ProcessTelemetry, tables: readonly string[]): RetentionObserver {
  const labelled = (name: string, help: string) => metrics.counter({ name, help, labels: ['table'] })
  const dropped = labelled(
    'latchkey_storage_partitions_dropped_total',
    'Expired partitions that were dropped.',
  )
  const blocked = labelled(
    'latchkey_storage_partitions_blocked_total',
    'Times that an expired partition was left for later, since somebody used it.',
  )
  const removed = labelled(
    'latchkey_storage_expired_rows_total',
    'Rows that were removed since their time was over.',
  )
  const failures = labelled('latchkey_storage_retention_failures_total', 'Steps of retention that failed.')
  // Shown as 0 before the first one, so that the first is a rise.
  for (const table of partitionedTables)
    for (const each of [dropped, blocked, failures]) each.with(table).inc(0)
  for (const table of tables) for (const each of [removed, failures]) each.with(table).inc(0)
  let expiredAgeMs = 0
  unlabelled(metrics).gauge(
    'latchkey_storage_expired_partition_age_seconds',
    'How long ago the oldest partition that is still there could have been dropped; 0 for none. The same from every process.',
    () => expiredAgeMs / 1000,
  )
  return {
    partitionDropped({ table, day }, durationMs) {
      dropped.with(table).inc()
      log.info({ table, day, durationMs: Math.round(durationMs) }, 'an expired partition was dropped')
    },
    partitionBlocked({ table, day, state }) {
      blocked.with(table).inc()
      log.warn({ table, day, state }, 'an expired partition is in use and is dropped later')
    },
    rowsRemoved: (table, count) => removed.with(table).inc(count),
    failed(table, cause) {
      failures.with(table).inc()
      log.warn({ table, cause }, 'a step of retention failed, the others went on')
    },
    expiredAgeSeen: (ageMs) => void (expiredAgeMs = ageMs),
  }
}

import { openLoop } from '#cmd/serving/loop.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import { LockHistoryRecorder } from '#internal/records/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import { type Directory, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'

/** Interval in ms between two writes of the history. With the duration of a write, the history is at most one second behind. */
const flushMs = 500
const turnMsMax = 5_000
/** Short pauses between retries, because history entries keep arriving while Postgres is unavailable and the buffer is limited. */
const backoff = { firstMs: 200, maxMs: 2_000 }

/** Starts the lock history recorder, which writes to Postgres every 500 ms and when the scope closes. Declares metrics; call once. */
export async function startLockHistory(
  host: Host,
  {
    pool,
    directory,
    retentionDefaults,
  }: {
    readonly pool: Pool
    readonly directory: Directory
    /** Retention for tenants that do not set their own. */
    readonly retentionDefaults: () => RetentionDays
  },
): Promise<LockHistoryRecorder> {
  const { log, metrics } = host
  const dropped = metrics.counter({
    name: 'latchkey_records_history_dropped_total',
    help: 'Lock history notes that were dropped: the buffer was full, or Postgres rejected their data.',
    labels: ['reason'],
  })
  for (const reason of ['full', 'refused']) dropped.with(reason).inc(0)
  const recorder = new LockHistoryRecorder({
    pool,
    clock: systemClock,
    retentionDaysOf: (tenantId) => {
      const tenant = directory.findTenantById(tenantId)
      return tenant && retentionOf(tenant.retention, retentionDefaults()).eventDays
    },
    onDropped: (reason, notes, cause) => {
      dropped.with(reason).inc(notes)
      if (cause !== undefined) log.error({ notes, cause }, 'Postgres rejected lock history notes; dropped')
    },
  })
  unlabelled(metrics).gauge(
    'latchkey_records_history_waiting_count',
    'Lock history notes not yet written to Postgres.',
    () => recorder.size,
  )
  await openLoop(host, {
    name: 'lock history',
    intervalMs: flushMs,
    turnMsMax,
    backoff,
    runOnce: () => recorder.flush(),
    onError: (cause, failures) => log.warn({ failures, cause }, 'lock history flush failed; retrying'),
    lastTurn: () => recorder.flushAll(),
  })
  return recorder
}

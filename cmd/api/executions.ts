import { openLoop } from '#cmd/serving/loop.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { ExecutionRecorder } from '#internal/records/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type Directory, type RetentionDays, retentionOf } from '#internal/tenants/index.ts'

/** What the history of locks stands on. */
export interface ExecutionParts {
  readonly pool: Pool
  readonly directory: Directory
  /** The days of a tenant that leaves them open. */
  readonly retentionDefaults: () => RetentionDays
}

/** With the time of a write the history is never more than a second behind. */
const flushMs = 500
const turnMsMax = 5_000
/** Notes keep coming while Postgres is away, and their room is short. */
const backoff = { firstMs: 200, maxMs: 2_000 }

/** Starts the history of locks: what is noted is written each half second, and once more when the process ends. */
export async function startExecutions(
  { pool, directory, retentionDefaults }: ExecutionParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<ExecutionRecorder> {
  const { log, metrics } = telemetry
  const dropped = metrics.counter({
    name: 'latchkey_executions_dropped_total',
    help: 'Notes of locks that will not be in the history: the buffer was full, or Postgres refused their data.',
    labels: ['reason'],
  })
  for (const reason of ['full', 'refused']) dropped.with(reason).inc(0)
  const recorder = new ExecutionRecorder({
    pool,
    clock: systemClock,
    retentionDaysOf: (tenantId) => {
      const tenant = directory.findTenantById(tenantId)
      return tenant && retentionOf(tenant.retention, retentionDefaults()).eventDays
    },
    onDropped: (reason, notes, cause) => {
      dropped.with(reason).inc(notes)
      if (cause !== undefined) log.error({ notes, cause }, 'Postgres will never take notes of executions')
    },
  })
  metrics.gauge({
    name: 'latchkey_executions_waiting_count',
    help: 'Notes of locks that are not written yet.',
    labels: [],
    collect: (each) => each.with().set(recorder.size),
  })
  await openLoop(
    {
      ...{ name: 'executions', intervalMs: flushMs, turnMsMax, backoff },
      runOnce: () => recorder.flush(),
      onError: (cause, failures) =>
        log.warn({ failures, cause }, 'executions could not be written, trying again'),
      lastTurn: () => recorder.flushAll(),
    },
    telemetry,
    scope,
  )
  return recorder
}

import { openLoop } from '#cmd/serving/loop.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { ensurePartitionsAhead, type Pool } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'

/** Two days are made ahead, so that many turns may fail before a midnight is met unprepared. */
const intervalMs = 3_600_000
/** Days that are all missing are some hundred tables; the next turn goes on where one ended. */
const turnMsMax = 60_000

/** Makes the partitions of the next days, at once and then every hour, for the scope's life. */
export async function startPartitionsAhead(
  pool: Pool,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const { log, metrics } = telemetry
  let assuredMs = systemClock.now()
  unlabelled(metrics).gauge(
    'latchkey_storage_partitions_ahead_age_seconds',
    'Time since the partitions of today and the two days after it were last known to be there; before that, since the start.',
    () => Math.max(0, systemClock.now() - assuredMs) / 1000,
  )
  await openLoop(
    {
      ...{ name: 'partitions ahead', intervalMs, turnMsMax },
      runOnce: async (signal) => {
        const nowMs = systemClock.now()
        const made = await ensurePartitionsAhead(pool, nowMs, signal)
        assuredMs = nowMs
        if (made > 0) log.info({ made }, 'partitions of the next days were made')
      },
      onError: (cause, failures) =>
        log.warn({ failures, cause }, 'partitions of the next days could not be made, trying again'),
    },
    telemetry,
    scope,
  )
}

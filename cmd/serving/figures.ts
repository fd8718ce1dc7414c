import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import { FigureRecorder, FigureTally } from '#internal/usage/index.ts'
import { openLoop } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

const flushMs = 5_000
const turnMsMax = 15_000
const backoff = { firstMs: 1_000, maxMs: 15_000 }

/**
 * Opens a tally of what happens in this process, which is written every 5 s and once more when the scope ends. To be called once
 * for a process: it declares metrics.
 */
export async function startFigures(
  pool: Pool,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<FigureTally> {
  const { log, metrics } = telemetry
  const { gauge } = unlabelled(metrics)
  const tally = new FigureTally(systemClock)
  gauge('latchkey_figures_waiting_count', 'Tenants times minutes not in the roll-ups yet.', () => tally.size)
  gauge(
    'latchkey_figures_dropped_count',
    'Things that happened since the start and are not in the roll-ups, since there was no room for them.',
    () => tally.dropped,
  )
  const recorder = new FigureRecorder({
    ...{ pool, tally, clock: systemClock },
    onRefused: (cells, cause) => log.error({ cells, cause }, 'Postgres will never take some figures'),
  })
  await openLoop(
    {
      ...{ name: 'figures', intervalMs: flushMs, turnMsMax, backoff },
      runOnce: () => recorder.flush(),
      onError: (cause, failures) =>
        log.warn({ failures, cause }, 'figures could not be written, trying again'),
      lastTurn: () => recorder.flushAll(),
    },
    telemetry,
    scope,
  )
  return tally
}

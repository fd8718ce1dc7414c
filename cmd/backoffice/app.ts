import { startFigures } from '#cmd/serving/figures.ts'
import { openOpsPort } from '#cmd/serving/ops.ts'
import { startQueueFigures } from '#cmd/serving/queue-figures.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { openStores } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import type { Config } from '#internal/config/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { schemaCheck } from '#internal/storage/index.ts'

/** The settings that the backoffice needs. */
export type BackofficeConfig = Pick<Config<'backoffice'>, 'opsPort' | 'databaseUrl' | 'redisUrl'> & {
  /** The interface of the ops port; default all of them. */
  readonly hostname?: string
}

/** A running backoffice. */
export interface RunningBackoffice {
  /** The port that is listened on, also where the configured one was 0. */
  readonly opsPort: number
}

const stores = { applicationName: 'latchkey-backoffice', connectionsMax: 2, queryTimeoutMs: 5_000 }

/**
 * Opens the backoffice's parts in order: the ops port, stores, then the queue's figures, by which forwarders are scaled and which
 * therefore must not go when those do.
 */
export async function startBackoffice(
  config: BackofficeConfig,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<RunningBackoffice> {
  const ops = await openOpsPort(
    { ...config, check: 'backoffice', reason: 'not started yet' },
    telemetry,
    scope,
  )
  const { pool, redis } = await openStores(
    { ...stores, databaseUrl: config.databaseUrl, redisUrl: config.redisUrl },
    telemetry,
    scope,
  )
  telemetry.health.addCheck('schema', schemaCheck(pool))
  const settings = await openSettings({ pool, redis }, telemetry, scope)
  const figures = await startFigures(pool, telemetry, scope)
  await startQueueFigures({ pool, settings, figures }, telemetry, scope)
  ops.markStarted()
  return { opsPort: ops.port }
}

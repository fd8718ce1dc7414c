import { openKeyRing } from '#cmd/serving/key-ring.ts'
import { type BindConfig, openOpsPort } from '#cmd/serving/ops.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startStats } from '#cmd/serving/stats.ts'
import { databaseOf, openStores, type RedisSettings, redisOf } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { openDirectory, startTenantSubscription } from '#cmd/serving/tenants.ts'
import type { Config } from '#internal/config/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { schemaCheck } from '#internal/storage/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'
import { type DeliveriesConfig, startDeliveries } from './deliveries.ts'
import { startReplays } from './replays.ts'
import { startPartitionsAhead, startRetention } from './retention.ts'

/** Settings of the forwarder. */
export type ForwarderConfig = Pick<Config<'forwarder'>, 'opsPort'> &
  RedisSettings &
  DeliveriesConfig &
  BindConfig & { readonly keyRing: KeyRing }

/** A running forwarder. */
export interface RunningForwarder {
  /** Actual ops port, also if the configured one is 0. */
  readonly opsPort: number
}

/** Pool of directory and settings. Deliveries have their own. */
const stores = { applicationName: 'latchkey-forwarder', connectionsMax: 2, queryTimeoutMs: 5_000 }

/** Starts the forwarder: ops port, stores, tenants, retention, deliveries, replays. It has no public port. */
export async function startForwarder(
  config: ForwarderConfig,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<RunningForwarder> {
  const ops = await openOpsPort(
    { ...config, check: 'deliveries', reason: 'not started yet' },
    telemetry,
    scope,
  )
  const { pool, redis } = await openStores(
    { ...stores, database: databaseOf(config), redis: redisOf(config) },
    telemetry,
    scope,
  )
  const settings = await openSettings({ pool, redis }, telemetry, scope)
  const directory = await openDirectory(pool, telemetry, scope)
  const ring = await openKeyRing({ pool, directory, keyRing: config.keyRing }, telemetry, scope)
  telemetry.health.addCheck('schema', schemaCheck(pool))
  // Deliveries continue by polling without Redis, so readiness does not depend on it.
  await startTenantSubscription(redis, directory, telemetry, scope)
  await startPartitionsAhead(pool, telemetry, scope)
  await startRetention(config, telemetry, scope)
  const stats = await startStats(pool, telemetry, scope)
  await startDeliveries(config, { ...ring, redis, directory, settings, stats }, telemetry, scope)
  await startReplays(config, redis, telemetry, scope)
  ops.markStarted()
  return { opsPort: ops.port }
}

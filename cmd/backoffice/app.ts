import { withRecordEvents } from '#cmd/api/telemetry.ts'
import { startUsage } from '#cmd/api/usage.ts'
import { type ClusterConfig, reachCluster } from '#cmd/operator/cluster.ts'
import { openKeyRing } from '#cmd/serving/key-ring.ts'
import { type BindConfig, openOpsPort, watchOutgoingCalls } from '#cmd/serving/ops.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startQueueStats, startStats } from '#cmd/serving/stats.ts'
import {
  type DatabaseSettings,
  databaseOf,
  openStores,
  type RedisSettings,
  redisOf,
} from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { openDirectory, startTenantSubscription } from '#cmd/serving/tenants.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createRequestObserver } from '#internal/http/index.ts'
import { createKubeMetrics, type Transport } from '#internal/kube/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { schemaCheck } from '#internal/storage/index.ts'
import { createSampler } from '#internal/telemetry/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'
import { openBackofficePort } from './port.ts'

/** Configuration of the back office. */
export type BackofficeConfig = Pick<
  Config<'backoffice'>,
  'backofficePort' | 'opsPort' | 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy' | 'publicUrl'
> &
  DatabaseSettings &
  RedisSettings &
  ClusterConfig &
  BindConfig & { readonly keyRing: KeyRing }

/** A running back office. */
export interface RunningBackoffice {
  /** Actual ports, also where the configured ones are 0. */
  readonly port: number
  readonly opsPort: number
}

const stores = { applicationName: 'latchkey-backoffice', connectionsMax: 2, queryTimeoutMs: 5_000 }
const drainMs = 2_000

/**
 * Starts the back office in order: ops port, stores, queue statistics, tenants, API server, port. Queue statistics are served here and
 * not by forwarders because forwarders are scaled by them, down to none.
 */
export async function startBackoffice(
  config: BackofficeConfig,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<RunningBackoffice> {
  const { log, metrics, health } = telemetry
  const ops = await openOpsPort(
    { ...config, check: 'backoffice', reason: 'not started yet' },
    telemetry,
    scope,
  )
  await watchOutgoingCalls(ops.ownUrl, telemetry, scope)
  const { pool, redis } = await openStores(
    { ...stores, database: databaseOf(config), redis: redisOf(config) },
    telemetry,
    scope,
  )
  health.addCheck('schema', schemaCheck(pool))
  const settings = await openSettings({ pool, redis }, telemetry, scope)
  const stats = await startStats(pool, telemetry, scope)
  await startQueueStats({ pool, settings, stats }, telemetry, scope)
  const directory = await openDirectory(pool, telemetry, scope)
  const { secrets } = await openKeyRing({ pool, directory, keyRing: config.keyRing }, telemetry, scope)
  await startTenantSubscription(redis, directory, telemetry, scope)
  const usage = await startUsage({ pool, redis, directory, settings }, withRecordEvents(telemetry), scope)
  const transport = await findTransport(config, telemetry, scope)
  const keepsLine = createSampler(() => settings.current.logShare)
  const observe = createRequestObserver({ log, metrics, clock: systemClock, keepsLine })
  const port = await openBackofficePort(
    { ...config, drainMs },
    { redis, directory, secrets, settings, usage, stats, transport, observe },
    telemetry,
    scope,
  )
  ops.markStarted()
  return { port, opsPort: ops.port }
}

/** Connects to the API server, where one is configured. */
async function findTransport(
  config: BackofficeConfig,
  { log, metrics }: ProcessTelemetry,
  { signal }: Scope,
): Promise<Transport | undefined> {
  if (config.kubeconfig === undefined && config.kubernetesHost === undefined) {
    log.warn({}, 'no API server is configured: only API keys of tenants authenticate')
    return undefined
  }
  const cluster = await reachCluster(
    { ...config, client: 'backoffice' },
    { log, metrics: createKubeMetrics(metrics), signal },
  )
  return cluster.transport
}

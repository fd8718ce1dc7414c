import { withRecordEvents } from '#cmd/api/telemetry.ts'
import { startUsage } from '#cmd/api/usage.ts'
import { type ClusterConfig, reachCluster } from '#cmd/operator/cluster.ts'
import { openKeyRing } from '#cmd/serving/key-ring.ts'
import { type CommonConfig, openOpsPort, watchOutgoingCalls } from '#cmd/serving/ops.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startQueueStats, startStats } from '#cmd/serving/stats.ts'
import { openStores } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { openDirectory } from '#cmd/serving/tenants.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createRequestObserver } from '#internal/http/index.ts'
import { createKubeMetrics, type Transport } from '#internal/kube/index.ts'
import { createSampler } from '#internal/telemetry/index.ts'
import { openBackofficePort } from './port.ts'

/** Configuration of the backoffice. */
export type BackofficeConfig = Pick<
  Config<'backoffice'>,
  'backofficePort' | 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy' | 'publicUrl'
> &
  ClusterConfig &
  CommonConfig

const stores = { applicationName: 'latchkey-backoffice', connectionsMax: 2, queryTimeoutMs: 5_000 }
const drainMs = 2_000

/**
 * Starts the backoffice in this order: ops port, stores, queue statistics, tenants, API server, port. The backoffice exposes the queue
 * statistics because they control how far forwarders are scaled, down to zero, and so forwarders cannot expose them.
 */
export async function startBackoffice(host: Host, config: BackofficeConfig): Promise<ServingPorts> {
  const { log, metrics } = host
  const ops = await openOpsPort(host, {
    ...config,
    check: 'backoffice',
    reason: 'the backoffice has not started yet',
  })
  await watchOutgoingCalls(host, ops.ownUrl)
  const { pool, redis } = await openStores(host, config, stores)
  const settings = await openSettings(host, { pool, redis })
  const stats = await startStats(host, pool)
  await startQueueStats(host, { pool, settings, stats })
  const directory = await openDirectory(host, { pool, redis })
  const { secrets } = await openKeyRing(host, { pool, directory, keyRing: config.keyRing })
  const usage = await startUsage(withRecordEvents(host), {
    pool,
    redis,
    directory,
    settings,
    actor: 'backoffice',
  })
  const transport = await findTransport(host, config)
  const keepsLine = createSampler(() => settings.current.logShare)
  const observe = createRequestObserver({ log, metrics, clock: systemClock, keepsLine })
  const port = await openBackofficePort(
    host,
    { ...config, drainMs },
    { redis, directory, secrets, settings, usage, stats, transport, observe },
  )
  ops.markStarted()
  return { port, opsPort: ops.port }
}

/** Connects to the Kubernetes API server if one is configured. */
async function findTransport(
  { log, metrics, scope: { signal } }: Host,
  config: BackofficeConfig,
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

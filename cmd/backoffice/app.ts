import { withRecordEvents } from '#cmd/api/telemetry.ts'
import { startUsage } from '#cmd/api/usage.ts'
import { type ClusterConfig, reachCluster } from '#cmd/operator/cluster.ts'
import { openCore } from '#cmd/serving/core.ts'
import { type CommonConfig, watchOutgoingCalls } from '#cmd/serving/ops.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { createLogSampler } from '#cmd/serving/settings.ts'
import { startQueueStats } from '#cmd/serving/stats.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createRequestObserver } from '#internal/http/index.ts'
import { createKubeMetrics, type Transport } from '#internal/kube/index.ts'
import { openBackofficePort } from './port.ts'

export type BackofficeConfig = Pick<
  Config<'backoffice'>,
  'backofficePort' | 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy' | 'publicUrl' | 'docsUrl'
> &
  ClusterConfig &
  CommonConfig

const stores = { applicationName: 'latchkey-backoffice', connectionsMax: 2, queryTimeoutMs: 5_000 }
const drainMs = 2_000

/**
 * Starts the backoffice in this order: resources of every process, queue statistics, API server, port. The queue statistics control the
 * number of forwarders. The backoffice exposes them, because that number can be 0.
 */
export async function startBackoffice(host: Host, config: BackofficeConfig): Promise<ServingPorts> {
  const { log, metrics } = host
  const core = await openCore(host, config, {
    ...stores,
    check: 'backoffice',
    reason: 'the backoffice has not started yet',
  })
  const { ops, settings } = core
  await watchOutgoingCalls(host, ops.ownUrl)
  await startQueueStats(host, core)
  const usage = await startUsage(withRecordEvents(host), { ...core, actor: 'backoffice' })
  const transport = await findTransport(host, config)
  const sampler = createLogSampler(settings)
  const observe = createRequestObserver({ log, metrics, clock: systemClock, sampler })
  const port = await openBackofficePort(host, { ...config, drainMs }, { ...core, usage, transport, observe })
  ops.markStarted()
  return { port, opsPort: ops.port }
}

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

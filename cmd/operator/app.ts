import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { openKeyRingGate } from '#cmd/serving/key-ring.ts'
import { type CommonConfig, openOpsPort, watchOutgoingCalls } from '#cmd/serving/ops.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { openStores, type Stores } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { tenantPartsOf } from '#cmd/serving/tenant-data.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import {
  createKubeClient,
  createKubeMetrics,
  Election,
  type ElectionEvent,
  type KubeClient,
  type KubeMetrics,
  startEventRecorder,
} from '#internal/kube/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import {
  fenceName,
  findWriterFence,
  leadTenants,
  startClusterSource,
  type TenantParts,
  type TenantSource,
} from '#internal/tenants/index.ts'
import { type Cluster, type ClusterConfig, reachCluster } from './cluster.ts'

export type OperatorConfig = Pick<
  Config<'operator'>,
  | 'callbackCidrsMax'
  | 'callbackPorts'
  | 'publicUrl'
  | 'operatorNamespaces'
  | 'operatorSecretsClusterWide'
  | 'keyRingReplacesLost'
> &
  ClusterConfig &
  CommonConfig

/** Name of the Lease for leader election, in the operator's own namespace. */
const leaseName = 'latchkey-operator'
/**
 * One connection for each of the eight concurrent reconciliations, and one for the sweep, which finds deleted tenants and removes their
 * data.
 */
const stores = { applicationName: 'latchkey-operator', connectionsMax: 9, queryTimeoutMs: 5_000 }
/** Maximum time in ms to wait for running reconciliations before the lease is released. */
const stopMsMax = 15_000

/** Starts the operator in this order: ops port, stores, watches of Tenants and Secrets, leader election. */
export async function startOperator(host: Host, config: OperatorConfig): Promise<ServingPorts> {
  const { log, metrics, health } = host
  const ops = await openOpsPort(host, {
    ...config,
    check: 'operator',
    reason: 'the operator has not started yet',
  })
  await watchOutgoingCalls(host, ops.ownUrl)
  const { pool, redis } = await openStores(host, config, stores)
  const { keyRing, keyRingReplacesLost: replacesLost } = config
  const gate = await openKeyRingGate(host, { pool, keyRing, replacesLost })
  const kubeMetrics = createKubeMetrics(metrics)
  const cluster = await reachCluster(config, { log, metrics: kubeMetrics, signal: host.scope.signal })
  const client = createKubeClient(cluster.transport)
  const parts = await openTenants(host, config, { cluster, client, pool, redis })
  showReadiness(metrics, parts.source)
  const openElection = async () => {
    if (host.scope.signal.aborted) return
    await host.scope.open({
      name: 'election',
      open: () =>
        new Election({
          client,
          namespace: cluster.namespace,
          name: leaseName,
          host: hostname(),
          lead: (leadership) => leadTenants(parts, leadership, { metrics: kubeMetrics, health }),
          fenceFloor: () => findWriterFence(pool, fenceName),
          onEvent: (event) => reportElection(log, kubeMetrics, event),
          health,
        }),
      close: (election) => election.stop(),
      closeMsMax: stopMsMax,
    })
    ops.markStarted()
  }
  // Waits for the key ring gate before the leader election. A leader replaces secrets that it cannot decrypt, so with a wrong key ring it
  // would seal them with a key that no other process has.
  void gate.opened.then(openElection).catch((error: unknown) => host.scope.stop(error))
  return { opsPort: ops.port }
}

/** Opens the watches of Tenants and Secrets. Followers also watch them, so that a new leader can start immediately. */
async function openTenants(
  { log, health, scope }: Host,
  config: OperatorConfig,
  { cluster, client, pool, redis }: Stores & { readonly cluster: Cluster; readonly client: KubeClient },
): Promise<TenantParts> {
  const events = await scope.open({
    name: 'events',
    open: () =>
      startEventRecorder({
        client,
        controller: 'latchkey.dev/operator',
        instance: hostname(),
        onTrouble: (failure) =>
          log.warn({ failure: failure.message }, 'Kubernetes event could not be written'),
      }),
    close: (recorder) => recorder.stop(),
  })
  const { transport, username } = cluster
  const source = await scope.open({
    name: 'cluster',
    open: () =>
      startClusterSource({
        transport,
        client,
        username,
        events,
        log,
        health,
        namespaces: config.operatorNamespaces,
        secretsClusterWide: config.operatorSecretsClusterWide,
      }),
    close: (opened) => opened.stop(),
  })
  health.addCheck('cluster', () => source.check())
  return {
    ...tenantPartsOf(pool, redis),
    source,
    log,
    actor: 'operator',
    keyRing: config.keyRing,
    clock: systemClock,
    random: randomBytes,
    callbackBounds: callbackBoundsOf(config),
    publicUrl: config.publicUrl,
  }
}

/** Declares the metric that counts tenants by readiness at each scrape, as `kubectl get tenants` shows it. */
function showReadiness(metrics: Metrics, source: Pick<TenantSource, 'tenants'>): void {
  metrics.gauge({
    name: 'latchkey_tenants_resources_count',
    help: 'Tenants by their condition Ready: True, False, or Unknown before it is written.',
    labels: ['ready'],
    collect: (gauge) => {
      const counts = { True: 0, False: 0, Unknown: 0 }
      for (const { status } of source.tenants()) {
        const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status
        counts[ready === 'True' || ready === 'False' ? ready : 'Unknown'] += 1
      }
      for (const [ready, count] of Object.entries(counts)) gauge.with(ready).set(count)
    },
  })
}

function reportElection(log: Host['log'], metrics: KubeMetrics, event: ElectionEvent): void {
  switch (event.kind) {
    case 'leading':
      metrics.setLeading(leaseName, true)
      return log.info({ fence: event.fence }, 'leadership acquired')
    case 'lost':
      metrics.setLeading(leaseName, false)
      return log.warn({ fence: event.fence, why: event.why }, 'leadership lost')
    case 'released':
      metrics.setLeading(leaseName, false)
      return log.info({ fence: event.fence, cause: event.error }, 'lease released')
    case 'trouble':
      return log.warn({ cause: event.error }, 'leader election attempt failed; retrying')
  }
}

import { randomBytes } from 'node:crypto'
import { hostname } from 'node:os'
import { openKeyRingGate } from '#cmd/serving/key-ring.ts'
import { type BindConfig, openOpsPort, watchOutgoingCalls } from '#cmd/serving/ops.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import {
  type DatabaseSettings,
  databaseOf,
  openStores,
  type RedisSettings,
  redisOf,
  type Stores,
} from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { resumeCallback, tellForwarders } from '#internal/events/index.ts'
import {
  createKubeClient,
  createKubeMetrics,
  type ElectionEvent,
  type KubeMetrics,
  startElection,
  startEventRecorder,
} from '#internal/kube/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { schemaCheck } from '#internal/storage/index.ts'
import type { Metrics } from '#internal/telemetry/index.ts'
import {
  type ClusterView,
  createClusterSecrets,
  fenceName,
  findWriterFence,
  type KeyRing,
  leadTenants,
  type OperatorParts,
  startClusterView,
  tellDirectories,
} from '#internal/tenants/index.ts'
import { forgetMeters } from '#internal/usage/index.ts'
import { type Cluster, type ClusterConfig, reachCluster } from './cluster.ts'

/** The settings that the operator needs. */
export type OperatorConfig = Pick<
  Config<'operator'>,
  | 'opsPort'
  | 'callbackCidrsMax'
  | 'callbackPorts'
  | 'publicUrl'
  | 'operatorNamespaces'
  | 'operatorSecretsClusterWide'
  | 'keyRingReplacesLost'
> &
  DatabaseSettings &
  RedisSettings &
  ClusterConfig &
  BindConfig & { readonly keyRing: KeyRing }

/** A running operator. */
export interface RunningOperator {
  /** The port that is listened on, also where the configured one was 0. */
  readonly opsPort: number
}

/** The name of the Lease, in the operator's own namespace. */
const leaseName = 'latchkey-operator'
/** As many as Tenants are worked on at once, and one for the sweep. */
const stores = { applicationName: 'latchkey-operator', connectionsMax: 9, queryTimeoutMs: 5_000 }
/** A turn under way is waited for, and then the lease is given back. */
const stopMsMax = 15_000

/** Opens the operator's parts in order: the ops port, stores, the cluster's Tenants and Secrets, then the election. */
export async function startOperator(
  config: OperatorConfig,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<RunningOperator> {
  const { log, metrics, health } = telemetry
  const ops = await openOpsPort({ ...config, check: 'operator', reason: 'not started yet' }, telemetry, scope)
  await watchOutgoingCalls(ops.ownUrl, telemetry, scope)
  const { pool, redis } = await openStores(
    { ...stores, database: databaseOf(config), redis: redisOf(config) },
    telemetry,
    scope,
  )
  health.addCheck('schema', schemaCheck(pool))
  const { keyRing, keyRingReplacesLost: replacesLost } = config
  const gate = await openKeyRingGate({ pool, keyRing, replacesLost }, telemetry, scope)
  const kubeMetrics = createKubeMetrics(metrics)
  const cluster = await reachCluster(config, { log, metrics: kubeMetrics, signal: scope.signal })
  const parts = await openTenants(config, { cluster, pool, redis }, telemetry, scope)
  showReadiness(metrics, parts.view)
  const openElection = async () => {
    if (scope.signal.aborted) return
    await scope.open({
      name: 'election',
      open: () =>
        startElection({
          client: parts.client,
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
  // A leader seals what it cannot open anew, with its own first key: with a wrong ring no other process could open any secret then.
  void gate.opened.then(openElection).catch((error: unknown) => scope.stop(error))
  return { opsPort: ops.port }
}

/** Followers follow the cluster too, so that a new leader begins at once. */
async function openTenants(
  config: OperatorConfig,
  { cluster, pool, redis }: Stores & { readonly cluster: Cluster },
  { log, health }: ProcessTelemetry,
  scope: Scope,
): Promise<OperatorParts> {
  const client = createKubeClient(cluster.transport)
  const secrets = createClusterSecrets({
    client,
    known: (place) => view.secret(place),
    username: cluster.username,
  })
  const view = await scope.open({
    name: 'cluster',
    open: () =>
      startClusterView({
        ...{ transport: cluster.transport, log, health },
        namespaces: config.operatorNamespaces,
        secretsClusterWide: config.operatorSecretsClusterWide,
        onSecretDeleted: (place) => secrets.forget(place),
      }),
    close: (opened) => opened.stop(),
  })
  health.addCheck('cluster', () => view.check())
  const events = await scope.open({
    name: 'events',
    open: () =>
      startEventRecorder({
        client,
        controller: 'latchkey.dev/operator',
        instance: hostname(),
        onTrouble: (failure) => log.warn({ failure: failure.message }, 'an event could not be written'),
      }),
    close: (recorder) => recorder.stop(),
  })
  const resume = async (tenantId: TenantId) => {
    if (await resumeCallback(pool, tenantId)) await tellForwarders(redis, [tenantId])
  }
  return {
    ...{ client, view, secrets, events, pool, log },
    ...{ keyRing: config.keyRing, clock: systemClock, random: randomBytes },
    callbackBounds: callbackBoundsOf(config),
    publicUrl: config.publicUrl,
    onChanged: () => tellDirectories(redis),
    onPurge: (tenantId) => forgetMeters(redis, tenantId),
    resumeCallback: resume,
  }
}

/** What `kubectl get tenants` shows, counted at each scrape. */
function showReadiness(metrics: Metrics, view: Pick<ClusterView, 'tenants'>): void {
  metrics.gauge({
    name: 'latchkey_tenants_resources_count',
    help: 'Tenants that are followed, by their condition Ready: True, False, or Unknown where it has not been written.',
    labels: ['ready'],
    collect: (gauge) => {
      const counts = { True: 0, False: 0, Unknown: 0 }
      for (const { status } of view.tenants()) {
        const ready = status?.conditions?.find(({ type }) => type === 'Ready')?.status
        counts[ready === 'True' || ready === 'False' ? ready : 'Unknown'] += 1
      }
      for (const [ready, count] of Object.entries(counts)) gauge.with(ready).set(count)
    },
  })
}

function reportElection(log: ProcessTelemetry['log'], metrics: KubeMetrics, event: ElectionEvent): void {
  switch (event.kind) {
    case 'leading':
      metrics.setLeading(leaseName, true)
      return log.info({ fence: event.fence }, 'leading')
    case 'lost':
      metrics.setLeading(leaseName, false)
      return log.warn({ fence: event.fence, why: event.why }, 'no longer leading')
    case 'released':
      metrics.setLeading(leaseName, false)
      return log.info({ fence: event.fence, cause: event.error }, 'the lease was given back')
    case 'trouble':
      return log.warn({ cause: event.error }, 'the election could not go on, trying again')
  }
}

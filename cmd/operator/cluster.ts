import type { Config } from '#internal/config/index.ts'
import {
  createTransport,
  type Endpoint,
  fromKubeconfig,
  inCluster,
  type KubeMetrics,
  probeServer,
  type Transport,
  type TransportOptions,
} from '#internal/kube/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'

export type ClusterConfig = Pick<Config<'operator'>, 'kubeconfig' | 'kubernetesHost' | 'kubernetesPort'> & {
  readonly version: string
  /** Name of this process in the user agent of its calls; default `operator`. */
  readonly client?: 'operator' | 'backoffice'
}

/** A Kubernetes API server that this process has verified and that has authenticated this process. */
export interface Cluster {
  readonly transport: Transport
  /** Namespace of the credentials. In a pod this is the pod's own namespace. */
  readonly namespace: string
  /** Name under which the API server knows this process. */
  readonly username: string
}

const probeAgainMs = 1_000

/**
 * Connects to the API server and verifies its identity before sending anything else. Retries while the API server is unavailable, until the
 * signal aborts. @throws if the API server cannot be trusted, or its address is not configured
 */
export async function reachCluster(
  config: ClusterConfig,
  {
    log,
    metrics,
    signal,
  }: { readonly log: Logger; readonly metrics: KubeMetrics; readonly signal: AbortSignal },
): Promise<Cluster> {
  const endpoint = await findEndpoint(config)
  const options: TransportOptions = {
    endpoint,
    userAgent: `latchkey-${config.client ?? 'operator'}/${config.version}`,
    onAnswer: metrics.onAnswer,
  }
  for (let tries = 0; !signal.aborted; tries += 1) {
    const probed = await probeServer(options, { watches: config.client !== 'backoffice' })
    if (probed.kind === 'unsafe') throw new Error(probed.reason)
    if (probed.kind === 'ok') {
      log.info({ ...probed.facts, server: endpoint.server }, 'authenticated at the API server')
      const { username } = probed.facts
      const transport = createTransport(options)
      metrics.watchTransport(transport)
      return { transport, namespace: endpoint.namespace ?? 'default', username }
    }
    if (tries % 30 === 0)
      log.warn({ failure: probed.failure.message }, 'the API server is unavailable; retrying')
    await Bun.sleep(probeAgainMs)
  }
  throw new Error('the process was stopped before the API server responded')
}

async function findEndpoint({
  kubeconfig,
  kubernetesHost,
  kubernetesPort,
}: ClusterConfig): Promise<Endpoint> {
  if (kubeconfig !== undefined) return await fromKubeconfig({ path: kubeconfig })
  if (kubernetesHost !== undefined) return await inCluster({ host: kubernetesHost, port: kubernetesPort })
  throw new Error('the address of the API server is unknown: run this process in a pod, or set KUBECONFIG')
}

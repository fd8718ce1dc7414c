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

/** Where the API server is found. */
export type ClusterConfig = Pick<Config<'operator'>, 'kubeconfig' | 'kubernetesHost' | 'kubernetesPort'> & {
  readonly version: string
  /** Who asks, in the API server's log; default `operator`. */
  readonly client?: 'operator' | 'backoffice'
}

/** An API server that is what it says, and knows us. */
export interface Cluster {
  readonly transport: Transport
  /** The namespace that goes with our credentials: in a pod its own. */
  readonly namespace: string
  /** Who we are to the API server. */
  readonly username: string
}

const probeAgainMs = 1_000

/**
 * Reaches the API server and makes sure of it before anything else is sent. Waits for one that does not answer, until the
 * signal fires. @throws when it may not be trusted, or nothing says where it is
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
      log.info({ ...probed.facts, server: endpoint.server }, 'the API server knows us')
      const { username } = probed.facts
      const transport = createTransport(options)
      metrics.watchTransport(transport)
      return { transport, namespace: endpoint.namespace ?? 'default', username }
    }
    if (tries % 30 === 0) log.warn({ failure: probed.failure.message }, 'the API server does not answer')
    await Bun.sleep(probeAgainMs)
  }
  throw new Error('the process ended before the API server answered')
}

async function findEndpoint({
  kubeconfig,
  kubernetesHost,
  kubernetesPort,
}: ClusterConfig): Promise<Endpoint> {
  if (kubeconfig !== undefined) return await fromKubeconfig({ path: kubeconfig })
  if (kubernetesHost !== undefined) return await inCluster({ host: kubernetesHost, port: kubernetesPort })
  throw new Error('nothing says where the API server is: run this in a pod, or set KUBECONFIG')
}

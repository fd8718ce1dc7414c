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

/** Settings of the API server's address. */
export type ClusterConfig = Pick<Config<'operator'>, 'kubeconfig' | 'kubernetesHost' | 'kubernetesPort'> & {
  readonly version: string
  /** Part of the user agent; default `operator`. */
  readonly client?: 'operator' | 'backoffice'
}

/** An API server that was verified and has authenticated this process. */
export interface Cluster {
  readonly transport: Transport
  /** Namespace of the credentials: in a pod its own. */
  readonly namespace: string
  /** User name at the API server. */
  readonly username: string
}

const probeAgainMs = 1_000

/**
 * Connects to the API server and verifies it before anything else is sent. Retries while it does not answer, until the signal fires.
 * @throws when it cannot be trusted, or its address is not configured
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
  throw new Error('the address of the API server is unknown: run in a pod, or set KUBECONFIG')
}

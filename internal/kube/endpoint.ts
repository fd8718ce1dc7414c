import { readFile } from 'node:fs/promises'
import { join } from 'node:path'

/** Who we are to the API server at this moment, and by what we know it. */
export interface Credentials {
  /** PEM. Without it the certificates that the system trusts are. */
  readonly ca: string | undefined
  /** PEM of a client certificate and its key. */
  readonly cert: string | undefined
  readonly key: string | undefined
  /** The name to be found in the server's certificate, where it is not the address. */
  readonly serverName: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

/** An API server, and how to be somebody there. */
export interface Endpoint {
  /** `https://host:port`, with a path where it is behind one; no slash at its end. */
  readonly server: string
  /** The namespace that goes with the credentials. */
  readonly namespace: string | undefined
  /** Asked before each request, since tokens and certificates rotate; keep nothing of it. @throws when there are none */
  readonly credentials: () => Promise<Credentials>
}

/** Where a pod finds its API server. */
export interface InClusterOptions {
  /** `KUBERNETES_SERVICE_HOST` and `KUBERNETES_SERVICE_PORT`. */
  readonly host: string
  readonly port: string
  /** Default `/var/run/secrets/kubernetes.io/serviceaccount`. */
  readonly dir?: string
}

const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * The API server of the cluster that this pod is in, with its service account. The files are read anew for each request: the
 * kubelet replaces the token long before it ends, and the CA without notice.
 * @throws when the service account is not mounted
 */
export async function inCluster(options: InClusterOptions): Promise<Endpoint> {
  const dir = options.dir ?? serviceAccountDir
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  const credentials = async () => {
    const [ca, token] = await Promise.all([
      readFile(join(dir, 'ca.crt'), 'utf8'),
      readFile(join(dir, 'token'), 'utf8'),
    ])
    return {
      ca,
      cert: undefined,
      key: undefined,
      serverName: undefined,
      headers: { authorization: `Bearer ${token.trim()}` },
    }
  }
  const [namespace] = await Promise.all([
    readFile(join(dir, 'namespace'), 'utf8').catch(() => undefined),
    credentials(),
  ])
  return { server: `https://${host}:${options.port}`, namespace: namespace?.trim(), credentials }
}

import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import type { KubeConfig } from '@kubernetes/client-node'
import { parse } from 'yaml'
import type { Credentials, Endpoint } from './endpoint.ts'
import { isObject } from './failure.ts'

/** Which of a kubeconfig's contexts; default its current one. */
export interface KubeconfigOptions {
  readonly path: string
  readonly context?: string
}

/**
 * The API server of a kubeconfig's context. Certificates, tokens, token files and exec plug-ins are asked for each request.
 * @throws when the file or the context is missing, or when it asks for what would be unsafe or is unknown here: unverified
 *   TLS, plain http beyond this machine, a proxy
 */
export async function fromKubeconfig(options: KubeconfigOptions): Promise<Endpoint> {
  // Loaded at need: it takes 40 MB, which an operator in a cluster has no use for.
  const { KubeConfig } = await import('@kubernetes/client-node')
  const config = new KubeConfig()
  config.loadFromFile(options.path)
  if (options.context !== undefined) config.setCurrentContext(options.context)
  const cluster = config.getCurrentCluster()
  if (!cluster)
    throw new Error(`${options.path}: no cluster goes with the context ${config.getCurrentContext()}`)
  if (cluster.skipTLSVerify)
    throw new Error(`${options.path}: insecure-skip-tls-verify is refused; give certificate-authority-data`)
  if (cluster.proxyUrl) throw new Error(`${options.path}: proxy-url is not supported`)
  checkServer(cluster.server)
  const tokenFile = await findTokenFile(options.path, config)
  return {
    server: cluster.server.replace(/\/+$/, ''),
    namespace: config.getContextObject(config.getCurrentContext())?.namespace,
    credentials: () => credentialsOf(config, tokenFile),
  }
}

/** Refuses a server that would be spoken to in the clear, other than one on this machine. @throws */
export function checkServer(server: string): void {
  const { protocol, hostname } = new URL(server)
  if (protocol === 'https:') return
  const loopback = hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  if (protocol !== 'http:' || !loopback)
    throw new Error('the API server is to be reached by https; http is for an address of this machine')
}

/** What `applyToHTTPSOptions` fills in; its own type is that of node:https, without TLS. */
interface FilledOptions {
  readonly ca?: unknown
  readonly cert?: unknown
  readonly key?: unknown
  readonly servername?: unknown
  readonly headers?: Readonly<Record<string, unknown>>
  /** `user:password` */
  readonly auth?: string | null
}

async function credentialsOf(config: KubeConfig, tokenFile: string | undefined): Promise<Credentials> {
  const filled: FilledOptions = {}
  await config.applyToHTTPSOptions(filled)
  const headers: Record<string, string> = {}
  for (const [name, value] of Object.entries(filled.headers ?? {}))
    if (typeof value === 'string') headers[name.toLowerCase()] = value.trim()
  if (filled.auth) headers['authorization'] = `Basic ${Buffer.from(filled.auth).toString('base64')}`
  if (tokenFile !== undefined)
    headers['authorization'] = `Bearer ${(await readFile(tokenFile, 'utf8')).trim()}`
  return {
    ca: pemOf(filled.ca),
    cert: pemOf(filled.cert),
    key: pemOf(filled.key),
    serverName: typeof filled.servername === 'string' ? filled.servername : undefined,
    headers,
  }
}

function pemOf(value: unknown): string | undefined {
  if (typeof value === 'string') return value
  return value instanceof Uint8Array ? Buffer.from(value).toString('utf8') : undefined
}

/** The library does not know a user's `tokenFile`, which kubectl and client-go do. */
async function findTokenFile(path: string, config: KubeConfig): Promise<string | undefined> {
  const file: unknown = parse(await readFile(path, 'utf8'))
  const users: readonly unknown[] = isObject(file) && Array.isArray(file['users']) ? file['users'] : []
  const name = config.getCurrentUser()?.name
  const entry = users.find((user) => isObject(user) && user['name'] === name)
  const user = isObject(entry) && isObject(entry['user']) ? entry['user'] : {}
  const tokenFile = user['tokenFile']
  return typeof tokenFile === 'string' && tokenFile !== '' ? resolve(dirname(path), tokenFile) : undefined
}

import { readFile } from 'node:fs/promises'
import { dirname, join, resolve } from 'node:path'
// Imports single files, because the package's `KubeConfig` loads a class for each Kubernetes kind, which costs 40 MB of memory.
import {
  type Cluster,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from '@kubernetes/client-node/dist/config_types.js'
import { ExecAuth } from '@kubernetes/client-node/dist/exec_auth.js'
import { parse } from 'yaml'
import { isJsonObject } from '#internal/base/index.ts'

/** All certificates and keys are PEM. */
export interface Credentials {
  /** Undefined to use the certificates that the system trusts. */
  readonly ca: string | undefined
  readonly cert: string | undefined
  readonly key: string | undefined
  /** Host name expected in the server's certificate, if it differs from the address. */
  readonly serverName: string | undefined
  readonly headers: Readonly<Record<string, string>>
}

/** Address of an API server, and credentials for it. */
export interface Endpoint {
  /** `https://host:port` with an optional path prefix and without a trailing slash. */
  readonly server: string
  readonly namespace: string | undefined
  /** Called before each request and never cached, since tokens and certificates rotate. @throws when they cannot be read */
  readonly credentials: () => Promise<Credentials>
}

const serviceAccountDir = '/var/run/secrets/kubernetes.io/serviceaccount'

/**
 * Returns the endpoint of the cluster that this pod runs in, with the credentials of its service account. Each request reads the files
 * again, because the kubelet rotates the token before it expires and the CA without notice.
 * @throws when the service account is not mounted
 */
export async function inCluster(options: {
  readonly host: string
  readonly port: string
  /** Directory of the service account; default `/var/run/secrets/kubernetes.io/serviceaccount`. */
  readonly dir?: string
}): Promise<Endpoint> {
  const dir = options.dir ?? serviceAccountDir
  const host = options.host.includes(':') ? `[${options.host}]` : options.host
  const credentials = async () => {
    const [ca, token] = await Promise.all([
      readFile(join(dir, 'ca.crt'), 'utf8'),
      readFile(join(dir, 'token'), 'utf8'),
    ])
    const headers = { authorization: `Bearer ${token.trim()}` }
    return { ca, cert: undefined, key: undefined, serverName: undefined, headers }
  }
  const [namespace] = await Promise.all([
    readFile(join(dir, 'namespace'), 'utf8').catch(() => undefined),
    credentials(),
  ])
  return { server: `https://${host}:${options.port}`, namespace: namespace?.trim(), credentials }
}

/**
 * Returns the endpoint of a kubeconfig's context. Each request reads certificates, tokens and token files again and runs the exec plug-in.
 * @throws when the file or context is missing, or configures something unsafe or unsupported: unverified TLS, plain http to another
 * machine, a proxy, a removed auth provider
 */
export async function fromKubeconfig({
  path,
  context,
}: {
  readonly path: string
  readonly context?: string
}): Promise<Endpoint> {
  const { name, cluster, user, tokenFile, namespace } = readContext(await readYaml(path), context)
  if (!cluster) throw new Error(`${path}: no cluster is defined for the context ${name}`)
  if (cluster.skipTLSVerify)
    throw new Error(`${path}: insecure-skip-tls-verify is refused; use certificate-authority-data`)
  if (cluster.proxyUrl) throw new Error(`${path}: proxy-url is not supported`)
  if (user?.authProvider) throw new Error(`${path}: auth-provider is not supported; use exec`)
  checkServer(cluster.server)
  const source: Parameters<typeof credentialsOf>[0] = {
    folder: dirname(path),
    cluster,
    user,
    tokenFile,
    plugins: new ExecAuth(),
  }
  return { server: cluster.server.replace(/\/+$/, ''), namespace, credentials: () => credentialsOf(source) }
}

/** Refuses plain http, except to a loopback address. @throws for a refused address */
export function checkServer(server: string): void {
  const { protocol, hostname } = new URL(server)
  if (protocol === 'https:') return
  const loopback = hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  if (protocol !== 'http:' || !loopback)
    throw new Error(
      'the address of the API server must use https; http is permitted only for a loopback address',
    )
}

async function readYaml(path: string): Promise<Readonly<Record<string, unknown>>> {
  const file: unknown = parse(await readFile(path, 'utf8'))
  return isJsonObject(file) ? file : {}
}

function readContext(file: Readonly<Record<string, unknown>>, wanted: string | undefined) {
  const name = wanted ?? String(file['current-context'] ?? '')
  const context = newContexts(file['contexts']).find((each) => each.name === name)
  const user = newUsers(file['users']).find((each) => each.name === context?.user)
  return {
    name,
    namespace: context?.namespace,
    cluster: newClusters(file['clusters']).find((each) => each.name === context?.cluster),
    user,
    tokenFile: findTokenFile(file, user),
  }
}

/** Finds a user's `tokenFile`, which kubectl and client-go support but `newUsers` drops. */
function findTokenFile(file: Readonly<Record<string, unknown>>, user: User | undefined): string | undefined {
  const users: readonly unknown[] = Array.isArray(file['users']) ? file['users'] : []
  const entry = users.find((each) => isJsonObject(each) && each['name'] === user?.name)
  const fields = isJsonObject(entry) && isJsonObject(entry['user']) ? entry['user'] : {}
  return typeof fields['tokenFile'] === 'string' && fields['tokenFile'] !== ''
    ? fields['tokenFile']
    : undefined
}

async function credentialsOf({
  folder,
  cluster,
  user,
  tokenFile,
  plugins,
}: {
  /** Folder to which relative paths refer. */
  readonly folder: string
  readonly cluster: Cluster
  readonly user: User | undefined
  readonly tokenFile: string | undefined
  readonly plugins: ExecAuth
}): Promise<Credentials> {
  const plugin = user ? await runPlugin(plugins, user) : {}
  const token =
    tokenFile === undefined ? user?.token : (await readFile(resolve(folder, tokenFile), 'utf8')).trim()
  const basic = user?.username
    ? `Basic ${Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')}`
    : undefined
  const authorization = token ? `Bearer ${token.trim()}` : (basic ?? plugin.authorization)
  const [ca, cert, key] = await Promise.all([
    pemOf(folder, cluster.caFile, cluster.caData),
    pemOf(folder, user?.certFile, user?.certData),
    pemOf(folder, user?.keyFile, user?.keyData),
  ])
  return {
    ca,
    cert: plugin.cert ?? cert,
    key: plugin.key ?? key,
    serverName: cluster.tlsServerName,
    headers: {
      ...(authorization !== undefined && { authorization }),
      ...(user?.impersonateUser && { 'impersonate-user': user.impersonateUser }),
    },
  }
}

/** Returns the credentials of the user's exec plug-in, which `ExecAuth` caches until they expire. */
async function runPlugin(
  plugins: ExecAuth,
  user: User,
): Promise<{ readonly cert?: string; readonly key?: string; readonly authorization?: string }> {
  if (!plugins.isAuthProvider(user)) return {}
  const filled: { cert?: unknown; key?: unknown; headers?: Record<string, unknown> } = {}
  // `applyAuthentication` expects node:https options, but sets only the three fields of `filled`.
  await plugins.applyAuthentication(user, filled as Parameters<ExecAuth['applyAuthentication']>[1])
  const { cert, key, headers = {} } = filled
  const { Authorization: authorization } = headers
  return {
    ...(typeof cert === 'string' && { cert }),
    ...(typeof key === 'string' && { key }),
    ...(typeof authorization === 'string' && { authorization }),
  }
}

/** Inline data takes precedence over a file, as in kubectl. */
async function pemOf(
  folder: string,
  file: string | null | undefined,
  data: string | null | undefined,
): Promise<string | undefined> {
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return file ? await readFile(resolve(folder, file), 'utf8') : undefined
}

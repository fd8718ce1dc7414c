import { readFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
// Its parts rather than its `KubeConfig`: that loads a class for each kind of Kubernetes, and with them 40 MB.
import {
  type Cluster,
  newClusters,
  newContexts,
  newUsers,
  type User,
} from '@kubernetes/client-node/dist/config_types.js'
import { ExecAuth } from '@kubernetes/client-node/dist/exec_auth.js'
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
 *   TLS, plain http beyond this machine, a proxy, one of the auth providers that kubectl has given up
 */
export async function fromKubeconfig({ path, context }: KubeconfigOptions): Promise<Endpoint> {
  const { name, cluster, user, tokenFile, namespace } = readContext(await readYaml(path), context)
  if (!cluster) throw new Error(`${path}: no cluster goes with the context ${name}`)
  if (cluster.skipTLSVerify)
    throw new Error(`${path}: insecure-skip-tls-verify is refused; give certificate-authority-data`)
  if (cluster.proxyUrl) throw new Error(`${path}: proxy-url is not supported`)
  if (user?.authProvider) throw new Error(`${path}: auth-provider is not supported; use exec`)
  checkServer(cluster.server)
  const source: Source = { folder: dirname(path), cluster, user, tokenFile, plugins: new ExecAuth() }
  return { server: cluster.server.replace(/\/+$/, ''), namespace, credentials: () => credentialsOf(source) }
}

/** Refuses a server that would be spoken to in the clear, other than one on this machine. @throws */
export function checkServer(server: string): void {
  const { protocol, hostname } = new URL(server)
  if (protocol === 'https:') return
  const loopback = hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d+){3}$/.test(hostname)
  if (protocol !== 'http:' || !loopback)
    throw new Error('the API server is to be reached by https; http is for an address of this machine')
}

async function readYaml(path: string): Promise<Readonly<Record<string, unknown>>> {
  const file: unknown = parse(await readFile(path, 'utf8'))
  return isObject(file) ? file : {}
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

/** The library does not know a user's `tokenFile`, which kubectl and client-go do. */
function findTokenFile(file: Readonly<Record<string, unknown>>, user: User | undefined): string | undefined {
  const users: readonly unknown[] = Array.isArray(file['users']) ? file['users'] : []
  const entry = users.find((each) => isObject(each) && each['name'] === user?.name)
  const fields = isObject(entry) && isObject(entry['user']) ? entry['user'] : {}
  return typeof fields['tokenFile'] === 'string' && fields['tokenFile'] !== ''
    ? fields['tokenFile']
    : undefined
}

interface Source {
  /** Relative paths begin here. */
  readonly folder: string
  readonly cluster: Cluster
  readonly user: User | undefined
  readonly tokenFile: string | undefined
  readonly plugins: ExecAuth
}

async function credentialsOf({ folder, cluster, user, tokenFile, plugins }: Source): Promise<Credentials> {
  const told = user ? await askPlugin(plugins, user) : {}
  const token =
    tokenFile === undefined ? user?.token : (await readFile(resolve(folder, tokenFile), 'utf8')).trim()
  const basic = user?.username
    ? `Basic ${Buffer.from(`${user.username}:${user.password ?? ''}`).toString('base64')}`
    : undefined
  const authorization = token ? `Bearer ${token.trim()}` : (basic ?? told.authorization)
  const [ca, cert, key] = await Promise.all([
    pemOf(folder, cluster.caFile, cluster.caData),
    pemOf(folder, user?.certFile, user?.certData),
    pemOf(folder, user?.keyFile, user?.keyData),
  ])
  return {
    ca,
    cert: told.cert ?? cert,
    key: told.key ?? key,
    serverName: cluster.tlsServerName,
    headers: {
      ...(authorization !== undefined && { authorization }),
      ...(user?.impersonateUser && { 'impersonate-user': user.impersonateUser }),
    },
  }
}

/** What a plug-in tells of who we are. It keeps its answer until that ends. */
interface Told {
  readonly cert?: string
  readonly key?: string
  readonly authorization?: string
}

async function askPlugin(plugins: ExecAuth, user: User): Promise<Told> {
  if (!plugins.isAuthProvider(user)) return {}
  const filled: { cert?: unknown; key?: unknown; headers?: Record<string, unknown> } = {}
  // Its own type is that of node:https, of which it fills in these.
  await plugins.applyAuthentication(user, filled as Parameters<ExecAuth['applyAuthentication']>[1])
  const { cert, key, headers = {} } = filled
  const { Authorization: authorization } = headers
  return {
    ...(typeof cert === 'string' && { cert }),
    ...(typeof key === 'string' && { key }),
    ...(typeof authorization === 'string' && { authorization }),
  }
}

/** Data counts before a file, as for kubectl. A file is read anew each time. */
async function pemOf(
  folder: string,
  file: string | null | undefined,
  data: string | null | undefined,
): Promise<string | undefined> {
  if (data) return Buffer.from(data, 'base64').toString('utf8')
  return file ? await readFile(resolve(folder, file), 'utf8') : undefined
}

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectOk, namespaces } from '#internal/kube/index.ts'
import { tenantObjects } from '#internal/tenants/index.ts'
import type { ClusterAccess } from './cluster.ts'
import { kubectl } from './tenant-api.ts'

/** Namespace of operators. */
export const operatorNamespace = 'latchkey'
/** Service account of operators in `config/presets/operator-rbac.yaml`. */
export const operatorAccount = 'latchkey-operator'
const tokenSeconds = 7200

/** Installs the prerequisites of an operator by the commands of docs/operate/tenants.md. Safe to repeat. */
export async function install({ client }: ClusterAccess): Promise<void> {
  await installDefinition()
  const made = await client.create(namespaces, { metadata: { name: operatorNamespace } })
  if (made.kind !== 'alreadyExists') expectOk('making a namespace', made)
  await run(['apply', '-f', 'config/presets/operator-rbac.yaml'])
}

/** Applies this repository's Tenant definition and waits until the API server uses it. */
export async function installDefinition(): Promise<void> {
  await run(['apply', '-f', 'crds'])
  await run(['wait', '--for=condition=Established', '--timeout=30s', 'crd/tenants.latchkey.dev'])
}

const removersMax = 16

/**
 * Starts deletion of a namespace; resolves when its Tenants are gone, with or without an operator. A later operator would
 * otherwise reconcile them and get 403, since the namespace is terminating.
 */
export async function removeNamespace({ client }: ClusterAccess, namespace: string): Promise<void> {
  const { items } = expectOk('listing Tenants', await client.list(tenantObjects, { namespace }))
  const left = items.map(({ metadata }) => metadata)
  const worker = async () => {
    for (let place = left.pop(); place; place = left.pop()) {
      const released = await client.mergePatch(tenantObjects, place, { metadata: { finalizers: null } })
      if (released.kind !== 'notFound') expectOk('releasing a Tenant', released)
      const removed = await client.remove(tenantObjects, place)
      if (removed.kind !== 'notFound') expectOk('deleting a Tenant', removed)
    }
  }
  await Promise.all(Array.from({ length: removersMax }, worker))
  const removed = await client.remove(namespaces, { name: namespace })
  if (removed.kind !== 'notFound') expectOk('deleting a namespace', removed)
}

/** Grants operators the Secrets of a namespace by the command that a Tenant's condition suggests. */
export async function grantSecrets(namespace: string): Promise<void> {
  const role = 'latchkey-operator-secrets'
  const subject = `--serviceaccount=${operatorNamespace}:${operatorAccount}`
  await run(['create', 'rolebinding', role, '-n', namespace, `--clusterrole=${role}`, subject])
}

/** Runs kubectl and returns its output. @throws if it fails */
export async function run(args: readonly string[], input = ''): Promise<string> {
  const { exitCode, error, out } = await kubectl({ args, input })
  if (exitCode !== 0) throw new Error(`kubectl ${args.join(' ')}: ${error}`)
  return out
}

/** Requests a token of the operator's account, valid for two hours. `flags` are passed to kubectl. */
export async function operatorToken(flags: readonly string[] = []): Promise<string> {
  const place = ['-n', operatorNamespace, `--duration=${tokenSeconds}s`]
  return (await run(['create', 'token', operatorAccount, ...place, ...flags])).trim()
}

/** Differences from the administrator's kubeconfig. */
export interface KubeconfigChange {
  /** URL of the API server. */
  readonly server?: string
  /** User entry that replaces the token. */
  readonly user?: object
  /** Default: the namespace of operators. */
  readonly namespace?: string
}

/** Writes the administrator's kubeconfig with the operator as its user; returns its path. */
export async function writeKubeconfig(folder: string, change: KubeconfigChange = {}): Promise<string> {
  const user = change.user ?? { token: await operatorToken() }
  const view = await run(['config', 'view', '--raw', '--minify', '-o', 'json'])
  const config = JSON.parse(view) as Record<string, unknown> & {
    contexts: { context: object }[]
    clusters: { name: string; cluster: object }[]
  }
  const [first] = config.contexts
  const { namespace = operatorNamespace } = change
  const context = { ...first, context: { ...first?.context, user: 'operator', namespace } }
  const clusters = config.clusters.map(({ name, cluster }) => ({
    name,
    cluster: { ...cluster, ...(change.server !== undefined && { server: change.server }) },
  }))
  const path = join(folder, `operator-${crypto.randomUUID()}.kubeconfig`)
  writeFileSync(
    path,
    JSON.stringify({ ...config, clusters, contexts: [context], users: [{ name: 'operator', user }] }),
  )
  return path
}

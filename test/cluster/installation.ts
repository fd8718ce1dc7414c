import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expectOk, namespaces } from '#internal/kube/index.ts'
import { tenantObjects } from '#internal/tenants/index.ts'
import type { ClusterAccess } from './cluster.ts'
import { kubectl } from './tenant-api.ts'

/** The namespace that operators live in. */
export const operatorNamespace = 'latchkey'
/** Who operators are, as `config/presets/operator-rbac.yaml` has it. */
export const operatorAccount = 'latchkey-operator'
const tokenSeconds = 7200

/** Installs what an operator needs, by the commands that the README names. Repeating it is harmless. */
export async function install({ client }: ClusterAccess): Promise<void> {
  await installDefinition()
  const made = await client.create(namespaces, { metadata: { name: operatorNamespace } })
  if (made.kind !== 'alreadyExists') expectOk('making a namespace', made)
  await run(['apply', '-f', 'config/presets/operator-rbac.yaml'])
}

/** Brings the Tenant's definition to what this repository has, and waits until the server goes by it. */
export async function installDefinition(): Promise<void> {
  await run(['apply', '-f', 'crds'])
  await run(['wait', '--for=condition=Established', '--timeout=30s', 'crd/tenants.latchkey.dev'])
}

const removersMax = 16

/**
 * Begins the deletion of a namespace whose Tenants are gone when this resolves, operator or not: to the next one they would be
 * work, and in a namespace that ends forbidden work.
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

/** Lets operators use the Secrets of a namespace, by the very command that a Tenant without it shows. */
export async function grantSecrets(namespace: string): Promise<void> {
  const role = 'latchkey-operator-secrets'
  const subject = `--serviceaccount=${operatorNamespace}:${operatorAccount}`
  await run(['create', 'rolebinding', role, '-n', namespace, `--clusterrole=${role}`, subject])
}

/** Runs kubectl and gives what it printed. @throws when it failed */
export async function run(args: readonly string[], input = ''): Promise<string> {
  const { exitCode, error, out } = await kubectl({ args, input })
  if (exitCode !== 0) throw new Error(`kubectl ${args.join(' ')}: ${error}`)
  return out
}

/** A token of the operator's account, for two hours. `flags` are kubectl's. */
export async function operatorToken(flags: readonly string[] = []): Promise<string> {
  const place = ['-n', operatorNamespace, `--duration=${tokenSeconds}s`]
  return (await run(['create', 'token', operatorAccount, ...place, ...flags])).trim()
}

/** How an operator reaches the API server, where that is not as the administrator does. */
export interface KubeconfigChange {
  /** The server's URL. */
  readonly server?: string
  /** The user's entry in place of a token. */
  readonly user?: object
  /** Default the one that operators live in. */
  readonly namespace?: string
}

/** Writes the administrator's kubeconfig with the operator in place of the administrator. Gives its path. */
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

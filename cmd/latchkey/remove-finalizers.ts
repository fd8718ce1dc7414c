import type { Environment } from '#internal/config/index.ts'
import {
  createKubeClient,
  createTransport,
  type Endpoint,
  expectOk,
  fromKubeconfig,
  inCluster,
  type KubeClient,
  type KubeObject,
  leases,
  objectKey,
  probeServer,
  type Resource,
  type Transport,
} from '#internal/kube/index.ts'
import { providerObjects, tenantFinalizer, tenantObjects } from '#internal/tenants/index.ts'
import { type Cli, jsonOption, type Program } from './cli.ts'

const leaseName = 'latchkey-operator'
/** Milliseconds until no operator holds the lease. Longer than 15 s, after which the lease of a killed leader expires. */
const leaderMsMax = 60_000
const lookAgainMs = 500
/** Maximum number of attempts to write an object while writes of other clients conflict. */
const triesMax = 5

const afterHelp = `
Removes Latchkey's finalizer from all Tenants, or from those in some namespaces, and from Providers,
so that they and their namespaces can be deleted without an operator. Their data stays. The chart
runs this command before it is uninstalled.`

export function addRemoveFinalizersCommand(program: Program, cli: Cli): void {
  program
    .command('remove-finalizers')
    .description('removes the finalizer from Tenants without an operator')
    .addHelpText('after', afterHelp)
    .option(
      '--operator <deployment>',
      "first scales this Deployment in the command's own namespace to 0, and waits until no operator leads",
    )
    .option('--namespaces <a,b>', 'namespaces, separated by commas; default: all')
    .option(...jsonOption)
    .action(
      cli.action(async ({ operator, namespaces, ...options }) => {
        const within = namespaces?.split(',').filter(Boolean)
        const removed = await removeFinalizers(operator, within, cli.terminal.env)
        return cli.answer(
          {
            text: `The finalizer was removed from ${removed.tenants} Tenants and ${removed.providers} Providers`,
            json: { removed: removed.tenants, providers: removed.providers },
          },
          options,
        )
      }),
    )
}

async function removeFinalizers(
  operator: string | undefined,
  namespaces: readonly string[] | undefined,
  env: Environment,
): Promise<{ tenants: number; providers: number }> {
  const endpoint = await findEndpoint(env)
  const options = { endpoint, userAgent: 'latchkey-remove-finalizers' }
  const probed = await probeServer(options, { watches: false })
  if (probed.kind === 'unsafe') throw new Error(probed.reason)
  if (probed.kind === 'unavailable') throw new Error(probed.failure.message)
  const transport = createTransport(options)
  const client = createKubeClient(transport)
  if (operator !== undefined) await endOperator(operator, { transport, client, endpoint })
  let tenants = 0
  for (const namespace of namespaces ?? [undefined]) {
    const listed = await client.list(tenantObjects, { namespace })
    // The CRD is not installed, so there are no Tenants.
    if (listed.kind === 'notFound') continue
    const { items } = expectOk('listing Tenants', listed)
    for (const tenant of items) tenants += Number(await letGo(client, tenantObjects, tenant))
  }
  return { tenants, providers: await releaseProviders(client) }
}

/** Removes the finalizers of Providers. If this command may not list Providers, the operator could not add finalizers to them either. */
async function releaseProviders(client: KubeClient): Promise<number> {
  const listed = await client.list(providerObjects, {})
  if (listed.kind === 'notFound' || listed.kind === 'forbidden') return 0
  let count = 0
  for (const provider of expectOk('listing Providers', listed).items)
    count += Number(await letGo(client, providerObjects, provider))
  return count
}

/** Finds the API server by KUBECONFIG, or by the variables that Kubernetes sets in every pod. */
async function findEndpoint(env: Environment): Promise<Endpoint> {
  const path = env['KUBECONFIG']
  if (path) return fromKubeconfig({ path })
  const host = env['KUBERNETES_SERVICE_HOST']
  if (host) return inCluster({ host, port: env['KUBERNETES_SERVICE_PORT'] ?? '443' })
  throw new Error('the address of the API server is unknown: run this command in a pod, or set KUBECONFIG')
}

/** Scales the operator to 0 and waits until no operator holds the lease, because a running operator would add the finalizers again. */
async function endOperator(
  deployment: string,
  {
    transport,
    client,
    endpoint,
  }: {
    readonly transport: Transport
    readonly client: KubeClient
    readonly endpoint: Endpoint
  },
): Promise<void> {
  const namespace = endpoint.namespace ?? 'default'
  const scaled = await transport.request({
    method: 'PATCH',
    path: `/apis/apps/v1/namespaces/${namespace}/deployments/${deployment}/scale`,
    contentType: 'application/merge-patch+json',
    body: { spec: { replicas: 0 } },
  })
  if (scaled.kind === 'notFound') return
  expectOk('scaling the operator to 0', scaled)
  const untilMs = performance.now() + leaderMsMax
  let seen = ''
  let sinceMs = performance.now()
  while (performance.now() < untilMs) {
    const found = await client.get(leases, { namespace, name: leaseName })
    if (found.kind === 'notFound') return
    const { spec } = expectOk('reading the lease', found)
    if (!spec?.holderIdentity) return
    // Text that changes at each renewal of the lease. A leader that is shutting down still renews its lease; a killed leader does not.
    const now = `${spec.holderIdentity} ${spec.renewTime}`
    if (now !== seen) sinceMs = performance.now()
    seen = now
    if (performance.now() - sinceMs > (spec.leaseDurationSeconds ?? 15) * 1000) return
    await Bun.sleep(lookAgainMs)
  }
  throw new Error(
    `an operator is still the leader after ${leaderMsMax / 1000} s: check for another operator deployment`,
  )
}

/** Removes the finalizer of an object. Returns whether the object had it. */
async function letGo<T extends KubeObject>(client: KubeClient, of: Resource<T>, object: T): Promise<boolean> {
  let { metadata }: KubeObject = object
  for (let tries = 0; tries < triesMax; tries += 1) {
    const finalizers = metadata.finalizers ?? []
    if (!finalizers.includes(tenantFinalizer)) return tries > 0
    const { resourceVersion } = metadata
    const kept = finalizers.filter((each) => each !== tenantFinalizer)
    const patched = await client.mergePatch(of, metadata, {
      metadata: { finalizers: kept, ...(resourceVersion !== undefined && { resourceVersion }) },
    })
    if (patched.kind === 'notFound') return true
    if (patched.kind !== 'conflict') {
      expectOk(`removing the finalizer of a ${of.kind}`, patched)
      return true
    }
    const read = await client.get(of, metadata)
    if (read.kind === 'notFound') return true
    metadata = expectOk(`reading a ${of.kind}`, read).metadata
  }
  throw new Error(`${of.kind} ${objectKey(metadata)} keeps changing: run this command again`)
}

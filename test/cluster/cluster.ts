import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import {
  createKubeClient,
  createTransport,
  type Endpoint,
  expectOk,
  fromKubeconfig,
  type KubeClient,
  type KubeObject,
  type KubeResult,
  namespaces,
  type ObjectPlace,
  type Resource,
  resource,
  type Transport,
} from '#internal/kube/index.ts'

/** Kubernetes credentials of a test. */
export interface ClusterAccess {
  readonly endpoint: Endpoint
  readonly transport: Transport
  readonly client: KubeClient & {
    /** Starts a deletion; `conflict` if the object has another uid. */
    remove(
      of: Resource<KubeObject>,
      place: ObjectPlace,
      only?: { readonly uid?: string | undefined },
    ): Promise<KubeResult<unknown>>
  }
}

/** Opens access to the API server of KUBECONFIG, by default with the administrator credentials in it. */
export async function openCluster(change?: (endpoint: Endpoint) => Endpoint): Promise<ClusterAccess> {
  const path = process.env['KUBECONFIG']
  if (!path) throw new Error('run these tests by npm run test:cluster')
  const given = await fromKubeconfig({ path })
  const endpoint = change ? change(given) : given
  const transport = createTransport({ endpoint, userAgent: 'latchkey-test' })
  const client: ClusterAccess['client'] = {
    ...createKubeClient(transport),
    remove: ({ apiVersion, plural, namespaced }, { namespace = '', name }, { uid } = {}) => {
      const root = apiVersion.includes('/') ? `/apis/${apiVersion}` : `/api/${apiVersion}`
      const path = `${root}${namespaced ? `/namespaces/${namespace}` : ''}/${plural}/${name}`
      const body = {
        apiVersion: 'v1',
        kind: 'DeleteOptions',
        ...(uid !== undefined && { preconditions: { uid } }),
      }
      return transport.request({ method: 'DELETE', path, body })
    },
  }
  return { endpoint, transport, client }
}

/** Namespace of one test. */
export interface TestNamespace {
  readonly name: string
  /** Starts deletion of the namespace and its contents, without waiting for the end. */
  remove(): Promise<void>
}

/** Creates a namespace with a unique name. */
export async function createNamespace({ client }: ClusterAccess): Promise<TestNamespace> {
  const name = `latchkey-test-${crypto.randomUUID().slice(0, 8)}`
  expectOk('making a namespace', await client.create(namespaces, { metadata: { name } }))
  return { name, remove: async () => void (await client.remove(namespaces, { name })) }
}

/** Path of the TokenRequest subresource of a service account. */
interface TokenRequest {
  readonly status?: { readonly token?: string }
}
const serviceAccounts = resource<KubeObject>({
  apiVersion: 'v1',
  kind: 'ServiceAccount',
  plural: 'serviceaccounts',
})

/** Creates a service account without rights; returns a function that requests its tokens (valid 10 min). */
export async function createServiceAccount(
  { client, transport }: ClusterAccess,
  place: { readonly namespace: string; readonly name: string },
): Promise<() => Promise<string>> {
  expectOk('making a service account', await client.create(serviceAccounts, { metadata: place }))
  return async () => {
    const answer = await transport.request({
      method: 'POST',
      path: `/api/v1/namespaces/${place.namespace}/serviceaccounts/${place.name}/token`,
      body: {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenRequest',
        spec: { expirationSeconds: 600 },
      },
    })
    const { status } = expectOk('asking for a token', answer) as TokenRequest
    if (!status?.token) throw new Error('the API server gave no token')
    return status.token
  }
}

/** Control plane of `npm run test:cluster`, for fault injection. */
export interface OwnControlPlane {
  readonly apiPort: number
  /** Kills and restarts a process; resolves when the API server is ready. */
  cycle(process: 'etcd' | 'apiserver'): Promise<void>
  /** Suspends a process (SIGSTOP) with its connections open; the returned function resumes it. */
  suspend(process: 'etcd' | 'apiserver'): () => void
  /** Compacts etcd up to the current revision. */
  compact(): Promise<void>
}

/** Finds the control plane. @throws unless this test run started the cluster */
export function ownControlPlane(): OwnControlPlane {
  const state = process.env['LATCHKEY_CLUSTER_STATE']
  if (!state) throw new Error('only a control plane that npm run test:cluster has started is broken')
  const kubeconfig = readFileSync(join(state, 'admin.kubeconfig'), 'utf8')
  const etcd = readFileSync(join(state, 'etcd-url'), 'utf8').trim()
  return {
    apiPort: Number(/https:\/\/127\.0\.0\.1:(\d+)/.exec(kubeconfig)?.[1]),
    async cycle(name) {
      const child = Bun.spawn([join(import.meta.dir, 'cycle'), state, name], { stdout: 'ignore' })
      if ((await child.exited) !== 0) throw new Error(`${name} did not come back`)
    },
    suspend(name) {
      const pid = Number(readFileSync(join(state, 'pid', name), 'utf8').split(' ')[0])
      process.kill(pid, 'SIGSTOP')
      return () => process.kill(pid, 'SIGCONT')
    },
    async compact() {
      const { header } = (await post(`${etcd}/v3/maintenance/status`, {})) as {
        header: { revision: string }
      }
      await post(`${etcd}/v3/kv/compaction`, { revision: header.revision, physical: true })
    },
  }
}

async function post(url: string, body: object): Promise<unknown> {
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body) })
  if (!response.ok) throw new Error(`${url}: ${response.status} ${await response.text()}`)
  return response.json()
}

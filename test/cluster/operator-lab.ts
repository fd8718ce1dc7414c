import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { poll } from '#internal/dev/index.ts'
import { expectOk, namespaces, type Secret, secrets } from '#internal/kube/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { type TenantObject, tenantObjects } from '#internal/tenants/index.ts'
import { startProcess, type TestProcess } from '#test/support/api-process.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { testStores } from '#test/support/stores.ts'
import { type ClusterAccess, openCluster } from './cluster.ts'
import { kubectl } from './tenant-api.ts'

const operatorNamespace = 'latchkey'
const account = { namespace: operatorNamespace, name: 'latchkey-operator' }
const waitMsMax = 30_000
const tokenSeconds = 7200
const quietMs = 3_500
const idleMsMax = 120_000

/** What an operator of a test says of itself. */
export interface OperatorProcess extends TestProcess {
  readonly opsUrl: string
  /** The sum of a metric's series that have all these label pairs, such as `code="403"`. */
  metric(name: string, ...labels: readonly string[]): Promise<number>
  /** Waits until it has written all its events and works on nothing. @throws after 2 min */
  idle(): Promise<void>
}

/** Operators as they are installed, under the roles that are documented, with a database of their own. */
export interface OperatorLab {
  readonly admin: ClusterAccess
  readonly pool: Pool
  /** The environment of an operator, to be started or changed. */
  readonly env: Readonly<Record<string, string>>
  /** Starts another one; ended with the lab. */
  operator(env?: Readonly<Record<string, string>>): Promise<OperatorProcess>
  /** Makes a namespace, by default with the operator's right to its Secrets. Gives its name. */
  namespace(options?: { readonly granted: boolean }): Promise<string>
  grant(namespace: string): Promise<void>
  create(namespace: string, name: string, part?: TenantPart): Promise<TenantObject>
  tenant(namespace: string, name: string): Promise<TenantObject>
  secret(namespace: string, name: string): Promise<Secret | undefined>
  /** Creates a Secret that is labelled for a tenant. */
  addSecret(
    place: { namespace: string; name: string; tenant?: string },
    values: Record<string, string>,
  ): Promise<void>
  /** Waits until the Tenant is so. @throws after 30 s, with its status as it was last */
  becomes(
    namespace: string,
    name: string,
    wanted: (tenant: TenantObject) => boolean,
    deadlineMs?: number,
  ): Promise<TenantObject>
  /** Waits until it is Ready for the present generation. */
  ready(namespace: string, name: string, deadlineMs?: number): Promise<TenantObject>
  /** Waits until a condition has this reason. */
  reason(namespace: string, name: string, type: string, reason: string): Promise<string>
  /** The first row. */
  row(text: string, values?: unknown[]): Promise<Record<string, unknown> | undefined>
  close(): Promise<void>
}

/** What of a Tenant is the test's. */
export interface TenantPart {
  readonly spec?: Readonly<Record<string, unknown>>
  readonly annotations?: Readonly<Record<string, string>>
}

/** Makes a lab. `npm run test:cluster` gives it its API server. */
export async function openOperatorLab(options: { readonly databaseUrl?: string } = {}): Promise<OperatorLab> {
  const admin = await openCluster()
  await install(admin)
  const database = options.databaseUrl === undefined ? await createMigratedDatabase() : undefined
  const databaseUrl = options.databaseUrl ?? database?.url ?? ''
  const pool = createPool({
    ...{ url: databaseUrl, applicationName: 'latchkey operator test', connectionsMax: 2 },
    ...{ queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 },
  })
  const folder = scratchFolder()
  const env = {
    KUBECONFIG: await writeKubeconfig(folder),
    LATCHKEY_DATABASE_URL: databaseUrl,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_OPS_PORT: '0',
    LATCHKEY_PUBLIC_URL: 'https://hooks.latchkey.example',
  }
  const operators = new Set<TestProcess>()
  const made: string[] = []
  return {
    ...{ admin, pool, env },
    ...tenantCalls(admin),
    async operator(changed = {}) {
      const started = startProcess('operator', { ...env, ...changed })
      operators.add(started)
      const { opsPort } = await started.logged('listening')
      const opsUrl = `http://localhost:${opsPort}`
      const metric: OperatorProcess['metric'] = (name, ...labels) => readMetric(opsUrl, name, labels)
      return { ...started, opsUrl, metric, idle: () => becomesIdle(metric) }
    },
    async namespace({ granted } = { granted: true }) {
      const name = `operator-${crypto.randomUUID().slice(0, 8)}`
      expectOk('making a namespace', await admin.client.create(namespaces, { metadata: { name } }))
      made.push(name)
      if (granted) await grantSecrets(name)
      return name
    },
    grant: grantSecrets,
    async row(text, values = []) {
      const { rows } = await pool.query<Record<string, unknown>>(text, values)
      return rows[0]
    },
    async close() {
      // Each gives its lease back, so that the next lab need not wait for it.
      for (const each of operators) each.signal('SIGTERM')
      await Promise.all([...operators].map((each) => each.exited))
      for (const name of made) await forceAway(admin, name)
      await pool.end()
      await database?.drop()
      rmSync(folder, { recursive: true })
    },
  }
}

function tenantCalls({
  client,
}: ClusterAccess): Pick<
  OperatorLab,
  'create' | 'tenant' | 'secret' | 'addSecret' | 'becomes' | 'ready' | 'reason'
> {
  const tenant = async (namespace: string, name: string) =>
    expectOk('reading a Tenant', await client.get(tenantObjects, { namespace, name }))
  const becomes: OperatorLab['becomes'] = async (namespace, name, wanted, deadlineMs = waitMsMax) => {
    let last: TenantObject | undefined
    const found = await poll(
      async () => {
        last = await tenant(namespace, name)
        return wanted(last) ? last : undefined
      },
      { deadlineMs },
    )
    if (found) return found
    throw new Error(`${namespace}/${name}: ${JSON.stringify(last?.status, undefined, 1)}`)
  }
  return {
    tenant,
    becomes,
    async create(namespace, name, { spec = {}, annotations = {} } = {}) {
      const object = {
        metadata: { namespace, name, annotations },
        spec: { slug: name, callback: { url: 'https://hooks.example/' }, ...spec },
      }
      return expectOk('making a Tenant', await client.create(tenantObjects, object))
    },
    async secret(namespace, name) {
      const found = await client.get(secrets, { namespace, name })
      return found.kind === 'notFound' ? undefined : expectOk('reading a Secret', found)
    },
    async addSecret({ namespace, name, tenant: owner }, values) {
      const data = Object.entries(values).map(([key, value]) => [key, Buffer.from(value).toString('base64')])
      const labels = owner === undefined ? {} : { 'latchkey.dev/tenant': owner }
      const object = {
        metadata: { namespace, name, labels },
        data: Object.fromEntries(data) as Record<string, string>,
      }
      expectOk('making a Secret', await client.create(secrets, object))
    },
    ready: (namespace, name, deadlineMs) =>
      becomes(
        namespace,
        name,
        (object) =>
          object.status?.observedGeneration === object.metadata.generation &&
          conditionOf(object, 'Ready')?.status === 'True',
        deadlineMs,
      ),
    async reason(namespace, name, type, reason) {
      const object = await becomes(namespace, name, (each) => conditionOf(each, type)?.reason === reason)
      return conditionOf(object, type)?.message ?? ''
    },
  }
}

/** A condition of a Tenant. */
export function conditionOf({ status }: TenantObject, type: string) {
  return status?.conditions?.find((condition) => condition.type === type)
}

/** Text of an entry of a Secret. */
export function entryOf(secret: Secret | undefined, entry: string): string {
  return Buffer.from(secret?.data?.[entry] ?? '', 'base64').toString('utf8')
}

async function install({ client }: ClusterAccess): Promise<void> {
  await run(['apply', '-f', 'crds'])
  await run(['wait', '--for=condition=Established', '--timeout=30s', 'crd/tenants.latchkey.dev'])
  const made = await client.create(namespaces, { metadata: { name: operatorNamespace } })
  if (made.kind !== 'alreadyExists') expectOk('making a namespace', made)
  await run(['apply', '-f', 'config/presets/operator-rbac.yaml'])
}

/** By the very command that a Tenant without it shows. */
async function grantSecrets(namespace: string): Promise<void> {
  const role = 'latchkey-operator-secrets'
  const subject = `--serviceaccount=${account.namespace}:${account.name}`
  await run(['create', 'rolebinding', role, '-n', namespace, `--clusterrole=${role}`, subject])
}

async function run(args: readonly string[]): Promise<string> {
  const { exitCode, error, out } = await kubectl({ args })
  if (exitCode !== 0) throw new Error(`kubectl ${args.join(' ')}: ${error}`)
  return out
}

/** The administrator's file with the operator's token in place of the administrator. */
async function writeKubeconfig(folder: string): Promise<string> {
  const token = await run([
    'create',
    'token',
    account.name,
    '-n',
    account.namespace,
    `--duration=${tokenSeconds}s`,
  ])
  const view = await run(['config', 'view', '--raw', '--minify', '-o', 'json'])
  const config = JSON.parse(view) as Record<string, unknown> & { contexts: { context: object }[] }
  const [first] = config.contexts
  const context = { ...first, context: { ...first?.context, user: 'operator', namespace: operatorNamespace } }
  const path = join(folder, 'operator.kubeconfig')
  const users = [{ name: 'operator', user: { token: token.trim() } }]
  writeFileSync(path, JSON.stringify({ ...config, contexts: [context], users }))
  return path
}

async function readMetric(opsUrl: string, name: string, labels: readonly string[]): Promise<number> {
  const text = await (await fetch(`${opsUrl}/metrics`)).text()
  return text
    .split('\n')
    .filter((line) => line.startsWith(name) && /^[ {]/.test(line.slice(name.length)))
    .filter((line) => labels.every((label) => line.includes(label)))
    .reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** Events are written a second apart: what has written nothing for three of them has none left. */
async function becomesIdle(metric: OperatorProcess['metric']): Promise<void> {
  let last = { written: -1, sinceMs: 0 }
  const idle = await poll(
    async () => {
      const busy = (await metric('workqueue_depth')) + (await metric('controller_runtime_active_workers'))
      const written = await metric('rest_client_requests_total', 'method="P', 'code="20')
      const puts = await metric('rest_client_requests_total', 'method="PUT"')
      if (busy > 0 || written - puts !== last.written)
        last = { written: written - puts, sinceMs: performance.now() }
      return performance.now() - last.sinceMs > quietMs || undefined
    },
    { deadlineMs: idleMsMax, everyMs: 250 },
  )
  if (!idle) throw new Error('the operator did not come to rest')
}

/** No operator is left to take the finalizers away, and the next one must not find these Tenants. */
async function forceAway({ client }: ClusterAccess, namespace: string): Promise<void> {
  const { items } = expectOk('listing Tenants', await client.list(tenantObjects, { namespace }))
  await Promise.all(
    items.map(async ({ metadata }) => {
      await client.mergePatch(tenantObjects, metadata, { metadata: { finalizers: null } })
      await client.remove(tenantObjects, metadata)
    }),
  )
  await client.remove(namespaces, { name: namespace })
}

import { afterAll, beforeAll } from 'bun:test'
import { rmSync } from 'node:fs'
import { expectOk, namespaces } from '#internal/kube/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '#test/support/migrated-database.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { testStores } from '#test/support/stores.ts'
import { type ClusterAccess, openCluster } from './cluster.ts'
import {
  grantSecrets,
  install,
  type KubeconfigChange,
  removeNamespace,
  writeKubeconfig,
} from './installation.ts'
import { type OperatorProcess, type OperatorStart, startOperatorProcess } from './operator-process.ts'
import { createTenantCalls, type TenantCalls } from './tenant-calls.ts'

const hookMsMax = 180_000

/** Operators with the documented roles and their own database. */
export interface OperatorLab extends TenantCalls {
  readonly admin: ClusterAccess
  readonly pool: Pool
  /** Environment of an operator. */
  readonly env: Readonly<Record<string, string>>
  /** Environment of the other processes: stores and key ring, no cluster. */
  readonly stores: Readonly<Record<string, string>>
  /** Starts an operator; `close` ends it. */
  operator(start?: OperatorStart): Promise<OperatorProcess>
  /** Writes a changed kubeconfig of the operator's account; returns its path. */
  kubeconfig(change: KubeconfigChange): Promise<string>
  /** Temporary folder, removed by `close`. */
  readonly folder: string
  /** Creates a namespace, by default granting the operator its Secrets; returns its name. */
  namespace(options?: { readonly granted: boolean }): Promise<string>
  grant(namespace: string): Promise<void>
  /** Runs a query and returns its first row. */
  row(text: string, values?: unknown[]): Promise<Record<string, unknown> | undefined>
  /** Ends the operators and removes everything. @throws if the API server answered an operator with 403, unless `strict` is false */
  close(): Promise<void>
}

/** Options of a lab. */
export interface LabOptions {
  /** Existing migrated database. Default: a new one. */
  readonly databaseUrl?: string
  /** Fails the lab if an operator got a 403: the documented roles must suffice. Default true. */
  readonly strict?: boolean
}

/** Opens a lab on the API server of `npm run test:cluster`. */
export async function openOperatorLab({ databaseUrl, strict = true }: LabOptions = {}): Promise<OperatorLab> {
  const admin = await openCluster()
  await install(admin)
  const database = databaseUrl === undefined ? await createMigratedDatabase() : undefined
  const url = databaseUrl ?? database?.url ?? ''
  const pool = createPool({
    url,
    applicationName: 'latchkey operator test',
    connectionsMax: 2,
    queryTimeoutMs: 20_000,
    connectTimeoutMs: 5_000,
  })
  const folder = scratchFolder()
  const stores = {
    LATCHKEY_DATABASE_URL: url,
    LATCHKEY_REDIS_URL: (await testStores()).redisUrl,
    LATCHKEY_KEY_RING: `test:${Buffer.alloc(32, 7).toString('base64')}`,
    LATCHKEY_OPS_PORT: '0',
  }
  const env = {
    ...stores,
    KUBECONFIG: await writeKubeconfig(folder),
    LATCHKEY_PUBLIC_URL: 'https://hooks.latchkey.example',
  }
  const operators: OperatorProcess[] = []
  const made: string[] = []
  return {
    admin,
    pool,
    env,
    stores,
    folder,
    grant: grantSecrets,
    ...createTenantCalls(admin),
    async operator(start = {}) {
      const started = await startOperatorProcess({ ...start, env: { ...env, ...start.env } })
      operators.push(started)
      return started
    },
    kubeconfig: (change) => writeKubeconfig(folder, change),
    async namespace({ granted } = { granted: true }) {
      const name = `operator-${crypto.randomUUID().slice(0, 8)}`
      expectOk('making a namespace', await admin.client.create(namespaces, { metadata: { name } }))
      made.push(name)
      if (granted) await grantSecrets(name)
      return name
    },
    async row(text, values = []) {
      const { rows } = await pool.query<Record<string, unknown>>(text, values)
      return rows[0]
    },
    async close() {
      // Stops the operators regularly, so that they release their lease and the next lab does not wait for its expiry.
      const ended = await Promise.all(operators.map((each) => each.stop()))
      for (const name of made) await removeNamespace(admin, name)
      await pool.end()
      await database?.drop()
      rmSync(folder, { recursive: true })
      const forbidden = ended.reduce((sum, each) => sum + each.forbidden, 0)
      if (strict && forbidden > 0)
        throw new Error(`the API server has forbidden operators ${forbidden} calls`)
    },
  }
}

/** Lab of a test file, with its first operator. */
export interface OperatorStage {
  readonly lab: OperatorLab
  /** Running operator; a test that replaces it assigns the new one. */
  operator: OperatorProcess
  /** Namespace whose Secrets the operator may use. */
  readonly shops: string
}

/** Options of a stage. */
export interface StageOptions {
  /** Options of the first operator. */
  readonly start?: OperatorStart
  readonly strict?: boolean
  /** Clean-up that needs the running operator. */
  readonly beforeClose?: () => Promise<void>
}

/** Opens a lab with one operator before the tests of a file, and closes it after them. Call once per file, outside of tests. */
export function useOperatorLab(options: StageOptions = {}): OperatorStage {
  const { start, strict = true, beforeClose } = options
  let lab: OperatorLab | undefined
  let opened: { readonly lab: OperatorLab; readonly shops: string; operator: OperatorProcess } | undefined
  const stage = () => {
    if (opened) return opened
    throw new Error('the lab is open in tests only')
  }
  beforeAll(async () => {
    lab = await openOperatorLab({ strict })
    opened = { lab, operator: await lab.operator(start), shops: await lab.namespace() }
  }, hookMsMax)
  afterAll(async () => {
    try {
      await beforeClose?.()
    } finally {
      await lab?.close()
    }
  }, hookMsMax)
  return {
    get lab() {
      return stage().lab
    },
    get shops() {
      return stage().shops
    },
    get operator() {
      return stage().operator
    },
    set operator(next) {
      stage().operator = next
    },
  }
}

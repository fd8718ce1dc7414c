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

/** Operators as they are installed, under the roles that are documented, with a database of their own. */
export interface OperatorLab extends TenantCalls {
  readonly admin: ClusterAccess
  readonly pool: Pool
  /** The environment of an operator, to be started or changed. */
  readonly env: Readonly<Record<string, string>>
  /** That of the other processes, which know of no cluster. */
  readonly stores: Readonly<Record<string, string>>
  /** Starts another one; ended with the lab. */
  operator(start?: OperatorStart): Promise<OperatorProcess>
  /** Writes a kubeconfig of the operator's account that differs. Gives its path. */
  kubeconfig(change: KubeconfigChange): Promise<string>
  /** A folder of the lab's own. */
  readonly folder: string
  /** Makes a namespace, by default with the operator's right to its Secrets. Gives its name. */
  namespace(options?: { readonly granted: boolean }): Promise<string>
  grant(namespace: string): Promise<void>
  /** The first row. */
  row(text: string, values?: unknown[]): Promise<Record<string, unknown> | undefined>
  /** Ends all. @throws when the API server has forbidden an operator anything, unless the lab was told to expect that */
  close(): Promise<void>
}

/** How a lab is opened. */
export interface LabOptions {
  /** A migrated database in place of the lab's own. */
  readonly databaseUrl?: string
  /** Whether calls that the API server forbids fail the lab; default true: the documented roles must be enough. */
  readonly strict?: boolean
}

/** Opens a lab. `npm run test:cluster` gives it its API server. */
export async function openOperatorLab({ databaseUrl, strict = true }: LabOptions = {}): Promise<OperatorLab> {
  const admin = await openCluster()
  await install(admin)
  const database = databaseUrl === undefined ? await createMigratedDatabase() : undefined
  const url = databaseUrl ?? database?.url ?? ''
  const pool = createPool({
    ...{ url, applicationName: 'latchkey operator test', connectionsMax: 2 },
    ...{ queryTimeoutMs: 20_000, connectTimeoutMs: 5_000 },
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
    ...{ admin, pool, env, stores, folder, grant: grantSecrets },
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
      // Each gives its lease back, so that the next lab need not wait for it.
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

/** What a file of tests works with. */
export interface OperatorStage {
  readonly lab: OperatorLab
  /** The operator that runs from the first test on; a test that replaces it says so here. */
  operator: OperatorProcess
  /** A namespace whose Secrets the operator may use. */
  readonly shops: string
}

/** How a stage is set. */
export interface StageOptions {
  /** Of the first operator. */
  readonly start?: OperatorStart
  readonly strict?: boolean
  /** What a file has to tidy away while its operator still runs. */
  readonly beforeClose?: () => Promise<void>
}

/** Opens a lab with one operator before the tests of a file, and closes it after them. To be called once, outside of tests. */
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

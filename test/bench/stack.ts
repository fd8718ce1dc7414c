import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { removeStores, startRedis, startStores } from '#internal/dev/index.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { type Measured, sourceProgram, startPrinting, startService, stopOnSignal } from './processes.ts'
import { putInForce } from './tenants.ts'

/** Stores, bare server and API, each as a separate process. */
export interface Stack {
  readonly bare: Measured
  readonly api: Measured
  readonly apiKey: string
  readonly databaseUrl: string
  /** Ends the API and starts it again on the same stores. */
  restartApi(): Promise<Measured>
  stop(): Promise<void>
}

const apiKey = 'lk_bench_0123456789abcdef0123456789abcdef'
/** API key of a tenant with the same limits whose records are in Postgres. */
export const durableApiKey = 'lk_bench_durable_0123456789abcdef01234567'

/** Options of `startStack`. */
export interface StackOptions {
  /** Runs the API from source and writes a CPU profile of it to this folder. */
  readonly profileDir?: string | undefined
}

/** Starts stores and servers; `stop` ends them and removes their data. */
export async function startStack({ profileDir }: StackOptions = {}): Promise<Stack> {
  const dir = await mkdtemp(join(tmpdir(), 'latchkey-bench-'))
  // Starts the stores as dev does, with three changes: more memory; no AOF rewrites, which would slow only one of the servers; fsync each
  // second, since fsync per write would measure the disk.
  const kept = { dataDir: join(dir, 'stores'), durable: true }
  const redis = await startRedis({
    ...kept,
    extraArgs: ['--auto-aof-rewrite-percentage', '0', '--maxmemory', '8gb', '--appendfsync', 'everysec'],
  })
  const stores = await startStores({ ...kept, redisUrl: redis.url })
  await putInForce(stores.databaseUrl, dir, tenant)
  const bare = await startPrinting('bare.main.ts', { BARE_REDIS_URL: stores.redisUrl })
  const startApi = () =>
    startService({
      name: 'api',
      latchkey: profileDir
        ? sourceProgram(['--cpu-prof-md', '--cpu-prof', `--cpu-prof-dir=${profileDir}`])
        : [compiledProgram()],
      env: { LATCHKEY_DATABASE_URL: stores.databaseUrl, LATCHKEY_REDIS_URL: stores.redisUrl },
    })
  let api = await startApi()
  const stopAll = async () => {
    await Promise.all([bare.stop(), api.stop()])
    await stores.stop()
    await redis.stop()
    await removeStores(kept.dataDir)
    await rm(dir, { recursive: true, force: true })
  }
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= stopAll())
  stopOnSignal(stop)
  return {
    bare,
    apiKey,
    databaseUrl: stores.databaseUrl,
    stop,
    get api() {
      return api
    },
    async restartApi() {
      await api.stop()
      api = await startApi()
      return api
    },
  }
}

/** Limits far above a run's usage: the built-in ones are 60 000 locks per minute and 1 GiB. */
const tenant = `apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: bench, namespace: bench}
spec:
  slug: bench
  callback: {url: "https://hooks.example.com/"}
  apiKeys: [{name: default, scopes: [records], secretRef: {name: bench-key}}]
  limits: {locksPerMinute: {hard: 1000000000}, recordBytes: {hard: 1000000000000}}
---
apiVersion: v1
kind: Secret
metadata: {name: bench-key, namespace: bench}
stringData: {apiKey: ${apiKey}}
---
apiVersion: latchkey.dev/v1alpha1
kind: Tenant
metadata: {name: durable, namespace: bench}
spec:
  slug: durable
  callback: {url: "https://hooks.example.com/"}
  records: {durability: postgres}
  apiKeys: [{name: default, scopes: [records], secretRef: {name: durable-key}}]
  limits: {locksPerMinute: {hard: 1000000000}, recordBytes: {hard: 1000000000000}}
---
apiVersion: v1
kind: Secret
metadata: {name: durable-key, namespace: bench}
stringData: {apiKey: ${durableApiKey}}
`

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { randomToken } from '#internal/base/index.ts'
import { freePort, removeStores, startPostgres, startRedis } from '#internal/dev/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { compiledProgram } from '#test/support/processes/compiled-program.ts'
import { type Measured, sourceProgram, startPrinting, startService, stopOnSignal } from '../processes.ts'
import { putInForce } from '../tenants.ts'
import { manifests, slugOf, tenantCount } from './calls.ts'
import { type Sink, startSink } from './sink.ts'

/** Stores, API, bare server and callbacks, each as a process, and a replaceable forwarder. */
export interface Stack {
  readonly api: Measured
  readonly bare: Measured
  /** API of another checkout, on the same stores. */
  readonly beside: Measured | undefined
  readonly sink: Sink
  readonly databaseUrl: string
  readonly redisUrl: string
  /** Connection whose statements `pg_stat_statements` separates from the product's. */
  readonly observer: Pool
  readonly postgresPid: number
  readonly redisPid: number
  readonly forwarder: Measured | undefined
  /** Tenant ids by slug; the callback of `dead` refuses connections. */
  readonly tenantIds: ReadonlyMap<string, string>
  /** Ends a running forwarder, clears the queue, and starts a new forwarder after `prepare`. */
  restartForwarder(prepare?: () => Promise<void>): Promise<Measured>
  stopForwarder(): Promise<void>
  /** Applies further manifests, and starts another API, which the caller stops. */
  startApiWith(files: readonly string[]): Promise<Measured>
  /** Ends all processes and removes the data, as a signal to this process does. Safe to repeat. */
  stop(): Promise<void>
}

/** Options of a stack. */
export interface StackOptions {
  /** Folder for CPU profiles of API and forwarder, which then run from source. Default: none. */
  readonly profileDir?: string
  /** Folder of another checkout, whose API is measured in the same rounds. It must have the same migrations. Default: none. */
  readonly besideDir?: string
}

/** Postgres settings suited to this load, in place of dev's small memory; the bare server uses the same Postgres. */
const postgresSettings = { shared_buffers: '1GB', max_wal_size: '4GB' }
const observerName = 'bench_observer'

/** Starts all processes except the forwarder; `stop` ends them and removes the data. */
export async function startStack({ profileDir, besideDir }: StackOptions = {}): Promise<Stack> {
  const dir = await mkdtemp(join(tmpdir(), 'latchkey-bench-'))
  const kept = { dataDir: join(dir, 'stores'), durable: true }
  const postgres = await startPostgres({ ...kept, settings: postgresSettings })
  const redis = await startRedis({ ...kept, extraArgs: ['--auto-aof-rewrite-percentage', '0'] })
  const sink = await startSink()
  const first = manifests(sink.port, await freePort())
  await putInForce(postgres.url, dir, first)
  const observer = await openObserver(postgres.url)
  const tenantIds = await readTenantIds(observer)
  const env = {
    LATCHKEY_DATABASE_URL: postgres.url,
    LATCHKEY_REDIS_URL: redis.url,
    LATCHKEY_CALLBACK_CIDRS_MAX: '127.0.0.0/8',
    LATCHKEY_CALLBACK_PORTS: 'any',
  }
  // Runs the compiled program, as installations do, unless a profile is requested.
  const latchkey = profileDir
    ? sourceProgram(['--cpu-prof-md', '--cpu-prof', `--cpu-prof-dir=${profileDir}`])
    : [compiledProgram()]
  const shared = Array.from({ length: tenantCount }, (_none, n) => tenantIds.get(slugOf(n)) ?? '')
  const bare = await startPrinting('webhooks/bare.main.ts', {
    BARE_DATABASE_URL: postgres.url,
    BARE_TENANT_IDS: shared.join(','),
  })
  const api = await startService({ name: 'api', latchkey, env })
  const beside =
    besideDir === undefined
      ? undefined
      : await startService({ name: 'api', latchkey: [compiledProgram(resolve(besideDir))], env })
  let forwarder: Measured | undefined
  const stopForwarder = async () => {
    await forwarder?.stop()
    forwarder = undefined
  }
  const stopAll = async () => {
    await Promise.all([stopForwarder(), bare.stop(), api.stop(), beside?.stop()])
    await Promise.all([sink.stop(), observer.end()])
    await Promise.all([postgres.stop(), redis.stop()])
    await removeStores(kept.dataDir)
    await rm(dir, { recursive: true, force: true })
  }
  let stopped: Promise<void> | undefined
  const stop = () => (stopped ??= stopAll())
  stopOnSignal(stop)
  return {
    api,
    bare,
    beside,
    sink,
    observer,
    tenantIds,
    databaseUrl: postgres.url,
    redisUrl: redis.url,
    postgresPid: postgres.pid,
    redisPid: redis.pid,
    get forwarder() {
      return forwarder
    },
    stopForwarder,
    async startApiWith(files) {
      await putInForce(postgres.url, dir, [first, ...files])
      return await startService({ name: 'api', latchkey, env })
    },
    async restartForwarder(prepare) {
      await stopForwarder()
      await observer.query('TRUNCATE deliveries_due, tenant_queues')
      await prepare?.()
      forwarder = await startService({ name: 'forwarder', latchkey, env })
      return forwarder
    },
    stop,
  }
}

/** Creates a separate role, since `pg_stat_statements` counts statements by role. */
async function openObserver(databaseUrl: string): Promise<Pool> {
  const password = randomToken()
  const bounds = { connectionsMax: 3, queryTimeoutMs: 600_000, connectTimeoutMs: 5000 }
  const owner = createPool({ url: databaseUrl, applicationName: 'bench', ...bounds })
  await owner.query('CREATE EXTENSION IF NOT EXISTS pg_stat_statements')
  await owner.query(`CREATE ROLE ${observerName} SUPERUSER LOGIN PASSWORD '${password}'`)
  await owner.end()
  const url = new URL(databaseUrl)
  url.username = observerName
  url.password = password
  return createPool({ url: url.href, applicationName: 'bench', ...bounds })
}

async function readTenantIds(observer: Pool): Promise<ReadonlyMap<string, string>> {
  const { rows } = await observer.query<{ id: string; slug: string }>('SELECT id, slug FROM tenants')
  return new Map(rows.map(({ id, slug }) => [slug, id]))
}

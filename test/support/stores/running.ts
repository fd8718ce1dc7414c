import { realpathSync } from 'node:fs'
import { mkdir, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import {
  freePort,
  type RunningRedis,
  type RunningStore,
  type RunningStores,
  startPostgres,
  startRedis,
  startStores,
} from '#internal/dev/index.ts'
import { childrenOf } from '../processes/process-children.ts'
import { openRunFolder, type RunFolder } from './run-folder.ts'

/** URLs of the stores of this test process. */
export interface TestStores {
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** Stores of this test process; started on first use and stopped at its end. */
interface Running {
  folder?: Promise<RunFolder>
  stores?: Promise<RunningStores>
  redisCount: number
  readonly redises: Set<TestRedis>
  postgresCount: number
  readonly postgreses: Set<TestPostgres>
}

const running: Running = { redisCount: 0, redises: new Set(), postgresCount: 0, postgreses: new Set() }

/**
 * Returns Postgres and Redis of this test process, started by the first call (about 1 s) and shared by its files: isolate tests by
 * a new database (`createTestDatabase`) and new tenants. `LATCHKEY_DATABASE_URL` and `LATCHKEY_REDIS_URL` select running ones.
 */
export async function testStores(): Promise<TestStores> {
  running.stores ??= openFolder().then((folder) =>
    startStores({
      dataDir: join(folder.path, 'stores'),
      durable: false,
      ...given('databaseUrl', process.env['LATCHKEY_DATABASE_URL']),
      ...given('redisUrl', process.env['LATCHKEY_REDIS_URL']),
    }),
  )
  const { databaseUrl, redisUrl } = await running.stores
  return { databaseUrl, redisUrl }
}

/** Stops all stores that tests of this process started. */
export async function stopRunning(): Promise<void> {
  await Promise.all([...running.redises, ...running.postgreses].map((store) => store.stop()))
  const stores = await running.stores?.catch(() => undefined)
  await stores?.stop()
  const folder = await running.folder?.catch(() => undefined)
  await folder?.close()
  running.redises.clear()
  running.postgreses.clear()
  delete running.stores
  delete running.folder
}

/** Options of a Redis for one test. */
export interface TestRedisOptions {
  /** Additional arguments of redis-server, such as `--maxmemory`, `5mb`. */
  readonly extraArgs?: readonly string[]
  /** Keeps data across `restart`. Default false. */
  readonly durable?: boolean
  /** Starts a cluster node, to be joined later. Default false. */
  readonly cluster?: boolean
}

/** Redis process of one test, for fault injection. */
export interface TestRedis {
  readonly url: string
  /** Process id; `restart` changes it. */
  readonly pid: number
  readonly port: number
  readonly password: string
  /** Sends a signal: SIGSTOP suspends, SIGCONT resumes, SIGKILL kills. */
  signal(signal: NodeJS.Signals): void
  /** Ends it and waits for that. Repeating it is safe. */
  stop(): Promise<void>
  /** Ends a running Redis, and starts it again on the same port with the same password. */
  restart(how?: RedisRestart): Promise<void>
}

/** Options for restarting a Redis. */
export interface RedisRestart {
  /** Removes the file of a durable Redis, as on a new disk. Default false. */
  readonly emptied?: boolean
  /** Maximum size of its files, in multiples of 512 bytes: larger writes fail as on a full disk. Default: unlimited. */
  readonly fileBytesMax?: number
}

/** Starts a Redis for one test (about 50 ms). It is stopped after the last file unless the caller stops it. */
export async function createTestRedis(options: TestRedisOptions = {}): Promise<TestRedis> {
  const folder = await openFolder()
  running.redisCount += 1
  const dataDir = join(folder.path, `redis-${running.redisCount}`)
  // Chooses the bus port, whose default is 10 000 above the port and may exceed 65 535.
  const cluster = options.cluster
    ? ['--cluster-enabled', 'yes', '--cluster-port', String(await freePort())]
    : []
  const start = (before?: RunningRedis, fileBytesMax?: number) =>
    startRedis({
      dataDir,
      durable: options.durable ?? false,
      extraArgs: [...cluster, ...(options.extraArgs ?? [])],
      ...(before && { port: before.port, password: before.password }),
      ...(fileBytesMax !== undefined && { launcher: withFilesOf(fileBytesMax) }),
    })
  let current = await start()
  const redis: TestRedis = {
    url: current.url,
    port: current.port,
    password: current.password,
    get pid() {
      return current.pid
    },
    signal: (signal) => current.signal(signal),
    stop: () => current.stop(),
    restart: async ({ emptied = false, fileBytesMax } = {}) => {
      await current.stop()
      if (emptied) await rm(join(dataDir, 'redis', 'appendonlydir'), { recursive: true, force: true })
      current = await start(current, fileBytesMax)
    },
  }
  running.redises.add(redis)
  return redis
}

/** Ignores SIGXFSZ, so that the write fails instead of killing the process. */
function withFilesOf(bytesMax: number): string[] {
  return ['/bin/sh', '-c', `trap '' XFSZ; ulimit -f ${Math.ceil(bytesMax / 512)}; exec "$0" "$@"`]
}

/** Options of a Postgres for one test. */
export interface TestPostgresOptions {
  /** Additional server settings by name. */
  readonly settings?: Readonly<Record<string, string>>
  /** Starts as a standby with a copy of the data of this server, which must be stopped. `settings` name its primary. */
  readonly standbyOf?: TestPostgres
}

/** Postgres of one test, for fault injection; durable, so that acknowledged writes survive. */
export interface TestPostgres {
  readonly url: string
  /** Folder of its data. */
  readonly dataDir: string
  /** Sends a signal to its first process: SIGKILL crashes the server, SIGQUIT stops it immediately. */
  signal(signal: NodeJS.Signals): void
  /** Suspends all its processes by SIGSTOP: connections stay open without answers. */
  hang(): Promise<void>
  /** Resumes all its processes. Safe to repeat. */
  wake(): void
  /** Ends it and waits for that. Repeating it is safe. */
  stop(): Promise<void>
  /** Ends a running Postgres, and starts it again on the same port with crash recovery. */
  restart(): Promise<void>
}

/** Starts a Postgres for one test (about 2 s). It is stopped after the last file unless the caller stops it. */
export async function createTestPostgres({
  settings = {},
  standbyOf,
}: TestPostgresOptions = {}): Promise<TestPostgres> {
  const folder = await openFolder()
  running.postgresCount += 1
  const dataDir = join(folder.path, `postgres-${running.postgresCount}`)
  if (standbyOf) await copyToStandby(standbyOf.dataDir, dataDir)
  let current: RunningStore = await startPostgres({ dataDir, durable: true, settings })
  const hung = new Set<number>()
  const wake = () => {
    for (const pid of hung) signalPid(pid, 'SIGCONT')
    hung.clear()
    process.removeListener('exit', wake)
  }
  const postgres: TestPostgres = {
    url: current.url,
    dataDir,
    signal: (signal) => current.signal(signal),
    hang: async () => {
      // Resumes stopped child processes at the exit, because they would outlive the postmaster.
      if (hung.size === 0) process.once('exit', wake)
      // Stops the postmaster first, since it then starts no more children.
      if (signalPid(current.pid, 'SIGSTOP')) hung.add(current.pid)
      for (const pid of await childrenOf(current.pid)) if (signalPid(pid, 'SIGSTOP')) hung.add(pid)
    },
    wake,
    stop: () => {
      wake()
      return current.stop()
    },
    restart: async () => {
      wake()
      await current.stop()
      current = await startPostgres({ dataDir, durable: true, settings, port: current.port })
    },
  }
  running.postgreses.add(postgres)
  return postgres
}

/** Copies the data of a stopped Postgres with their owner, since the embedded programs lack pg_basebackup. */
async function copyToStandby(from: string, to: string): Promise<void> {
  await mkdir(join(to, 'postgres'), { recursive: true })
  const data = join(to, 'postgres', 'data')
  const copied = Bun.spawnSync(['cp', '-a', join(realpathSync(join(from, 'postgres')), 'data'), data])
  if (copied.exitCode !== 0) throw new Error(`the data were not copied: ${copied.stderr.toString()}`)
  await writeFile(join(data, 'standby.signal'), '')
}

/** Sends a signal; returns false if the process has ended. */
function signalPid(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name)
  } catch {
    return false
  }
}

function openFolder(): Promise<RunFolder> {
  running.folder ??= openRunFolder()
  return running.folder
}

function given<Name extends string>(name: Name, value: string | undefined) {
  return (value === undefined || value === '' ? {} : { [name]: value }) as { [key in Name]?: string }
}

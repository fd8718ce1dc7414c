import { existsSync, realpathSync } from 'node:fs'
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { createPool } from '#internal/storage/index.ts'
import { type Child, logTail, spawnChild } from './child.ts'
import { poll } from './poll.ts'
import { freePort, isPortFree } from './ports.ts'
import { clusterDir, databaseUser, endLeftPostgres, postgresLog, prepareData } from './postgres-data.ts'
import { type PostgresPlace, placePostgres } from './postgres-place.ts'
import { StoreStartError } from './start-error.ts'
import { portTriesMax, type RunningStore, readyWithinMs, type StoreOptions } from './store.ts'

/** What an embedded Postgres is started with. */
export interface PostgresStartOptions extends StoreOptions {
  /** The port of the last start, where clients that stayed expect it; default a free one. */
  readonly port?: number
  /** Further settings of the server by name, over ours. */
  readonly settings?: Readonly<Record<string, string>>
}

/** An embedded Postgres, to be hung or killed by tests. */
export interface RunningPostgres extends RunningStore {
  readonly port: number
  /** Sends a signal to the server's first process, whose end is the end of all others. */
  signal(signal: NodeJS.Signals): void
}

/**
 * Starts a Postgres of its own on a free port of 127.0.0.1, with the data of the last start or new ones. What a killed
 * predecessor left running on them is ended first. The caller sees to it that one process at a time uses the folder.
 * @throws StoreStartError with what to do
 */
export async function startPostgres(options: PostgresStartOptions): Promise<RunningPostgres> {
  await mkdir(options.dataDir, { recursive: true })
  const dataDir = realpathSync(options.dataDir)
  const place = await placePostgres(dataDir, options.onProgress)
  if (await endLeftPostgres(place.home)) options.onProgress?.('Postgres: ended what a killed run had left')
  const password = await prepareData(place, options.durable)
  for (let attempt = 1; attempt <= portTriesMax; attempt += 1) {
    const port = options.port ?? (await freePort())
    const child = spawnPostgres(place, port, options)
    const url = `postgres://${databaseUser}:${password}@127.0.0.1:${port}/latchkey`
    if (await becomesReady(child, url)) {
      const { pid, stop, signal } = child
      return { url, pid, port, stop, signal, exited: child.exited.then(() => undefined) }
    }
    const portTaken = child.hasExited() && !(await isPortFree(port))
    await child.stop()
    if (!portTaken) break
  }
  const log = postgresLog(place.home)
  throw new StoreStartError(`Postgres did not start; the last lines of ${log}:\n${logTail(log)}`)
}

function spawnPostgres(place: PostgresPlace, port: number, options: PostgresStartOptions): Child {
  const { home, native, runAs } = place
  const { durable } = options
  const settings = {
    ...commonSettings,
    ...(durable ? {} : volatileSettings),
    ...statements(native),
    ...options.settings,
  }
  return spawnChild({
    argv: [
      ...[join(native, 'bin', 'postgres'), '-D', clusterDir(home), '-p', String(port)],
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    ...(runAs && { runAs }),
    logPath: postgresLog(home),
    // Fast shutdown, and at our own end without waiting the immediate one where nothing is worth a checkpoint.
    stopSignal: 'SIGINT',
    exitSignal: durable ? 'SIGINT' : 'SIGQUIT',
  })
}

const commonSettings = {
  listen_addresses: '127.0.0.1',
  // A socket's path has 107 bytes at most, and a data folder may well be longer.
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '32MB',
  work_mem: '4MB',
  huge_pages: 'off',
  max_wal_size: '256MB',
  wal_level: 'minimal',
  max_wal_senders: '0',
  jit: 'off',
  log_checkpoints: 'off',
  // Statements may hold what must not be in a log.
  log_min_error_statement: 'panic',
}

const volatileSettings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }

function statements(native: string): Record<string, string> {
  const library = join(native, 'lib', 'postgresql', 'pg_stat_statements')
  const shipped = existsSync(`${library}.so`) || existsSync(`${library}.dylib`)
  return shipped ? { shared_preload_libraries: 'pg_stat_statements' } : {}
}

/** Waits until the database of the URL can be used, making it on the first start; false when the process ends or hangs. */
async function becomesReady(child: Child, url: string): Promise<boolean> {
  const outcome = await poll(
    async () => {
      if (child.hasExited()) return 'ended'
      return (await makeDatabase(url)) ? 'ready' : undefined
    },
    { deadlineMs: readyWithinMs, everyMs: 50 },
  )
  return outcome === 'ready'
}

async function makeDatabase(url: string): Promise<boolean> {
  const maintenance = new URL(url)
  maintenance.pathname = '/postgres'
  const pool = createPool({
    url: maintenance.href,
    applicationName: 'latchkey dev start',
    connectionsMax: 1,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 2000,
  })
  try {
    const found = await pool.query("SELECT FROM pg_database WHERE datname = 'latchkey'")
    if (found.rowCount === 0) await pool.query('CREATE DATABASE latchkey')
    return true
  } catch {
    // Not up yet; when it never comes up, its log says why.
    return false
  } finally {
    await pool.end()
  }
}

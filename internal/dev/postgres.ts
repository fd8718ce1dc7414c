import { existsSync, realpathSync } from 'node:fs'
import { chown, mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { randomToken } from '#internal/base/index.ts'
import { createPool } from '#internal/storage/index.ts'
import { type PostgresPlace, placePostgres } from './postgres-place.ts'
import { endProcesses, logTail, type RunAs, StoreStartError, spawnChild } from './processes.ts'
import { type RunningStore, type StoreOptions, startServer } from './store.ts'

/** Options of an embedded Postgres. */
export interface PostgresStartOptions extends StoreOptions {
  /** Additional server settings by name. They override the built-in settings. */
  readonly settings?: Readonly<Record<string, string>>
}

const databaseUser = 'latchkey'
const passwordFile = 'latchkey.password'

const commonSettings = {
  listen_addresses: '127.0.0.1',
  // No Unix socket: a socket path is limited to 107 bytes, and a data folder's path can be longer.
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
  // Statements can contain data that must not appear in a log.
  log_min_error_statement: 'panic',
}
const volatileSettings = { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off' }

/**
 * Starts Postgres on 127.0.0.1 with the data of the previous start, or with new data. First stops processes of a killed earlier run that
 * still use the data.
 * @throws StoreStartError with a remedy
 */
export async function startPostgres(options: PostgresStartOptions): Promise<RunningStore> {
  const { durable, onProgress } = options
  await mkdir(options.dataDir, { recursive: true })
  const place = await placePostgres(realpathSync(options.dataDir), onProgress)
  const { home, native, runAs } = place
  if (await endLeftPostgres(home))
    onProgress?.('Postgres: stopped the server that a killed run had left running')
  const password = await prepareData(place, durable)
  const urlOf = (port: number) => `postgres://${databaseUser}:${password}@127.0.0.1:${port}/latchkey`
  const settings = {
    ...commonSettings,
    ...(durable ? {} : volatileSettings),
    ...statementSettings(native),
    ...options.settings,
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const logPath = postgresLog(home)
  const running = await startServer({
    name: 'Postgres',
    logPath,
    port: options.port,
    isReady: (port) => makeDatabase(urlOf(port)),
    spawn: async (port) =>
      spawnChild({
        argv: [join(native, 'bin', 'postgres'), '-D', clusterDir(home), '-p', String(port), ...flags],
        // SIGINT shuts Postgres down fast, with a checkpoint. Data that are not durable need no checkpoint, so SIGQUIT stops Postgres
        // immediately when our process exits.
        runAs,
        logPath,
        stopSignal: 'SIGINT',
        exitSignal: durable ? 'SIGINT' : 'SIGQUIT',
      }),
  })
  return { ...running, url: urlOf(running.port) }
}

/** Stops the processes that use a home folder's data, found by their command line. Returns whether any were found. */
export async function endLeftPostgres(home: string): Promise<boolean> {
  const data = clusterDir(home)
  const ended = await endProcesses(
    (command) => command.includes(`/bin/postgres -D ${data}`) || command.includes(`/bin/initdb -D ${data}`),
    [
      { signal: 'SIGINT', waitMs: 15_000 },
      { signal: 'SIGQUIT', waitMs: 5_000 },
      { signal: 'SIGKILL', waitMs: 5_000 },
    ],
  )
  return ended.length > 0
}

function clusterDir(home: string): string {
  return join(home, 'data')
}

function postgresLog(home: string): string {
  return join(home, 'postgres.log')
}

function statementSettings(native: string): Record<string, string> {
  const library = join(native, 'lib', 'postgresql', 'pg_stat_statements')
  const isShipped = existsSync(`${library}.so`) || existsSync(`${library}.dylib`)
  return isShipped ? { shared_preload_libraries: 'pg_stat_statements' } : {}
}

/** Creates the data folder if it is missing, checks that this Postgres version can use it, and returns the database password. */
async function prepareData(place: PostgresPlace, durable: boolean): Promise<string> {
  const data = clusterDir(place.home)
  if (!existsSync(join(data, 'PG_VERSION'))) await makeData(place, durable)
  const written = (await readFile(join(data, 'PG_VERSION'), 'utf8')).trim()
  const program = Bun.spawnSync([join(place.native, 'bin', 'postgres'), '--version']).stdout.toString()
  const [, major] = /(\d+)/.exec(program) ?? []
  if (written !== major)
    throw new StoreStartError(
      `${data} was written by Postgres ${written} and this is ${major}: remove ${place.home}, or set LATCHKEY_DATA_DIR`,
    )
  await disarmPidFile(data)
  return (await readFile(join(data, passwordFile), 'utf8')).trim()
}

/**
 * Creates the data and the password file in a temporary folder, which is renamed when complete, so that an interrupted start leaves no
 * incomplete data.
 */
async function makeData({ home, native, runAs }: PostgresPlace, durable: boolean): Promise<void> {
  const fresh = `${clusterDir(home)}.new`
  const given = join(home, 'initdb.password')
  await rm(fresh, { recursive: true, force: true })
  const password = randomToken()
  await writeOwned(given, password, runAs)
  const initdb = spawnChild({
    argv: [
      join(native, 'bin', 'initdb'),
      '-D',
      fresh,
      '-U',
      databaseUser,
      `--pwfile=${given}`,
      '--auth=scram-sha-256',
      '--encoding=UTF8',
      '--locale=C',
      '--locale-provider=builtin',
      '--builtin-locale=C.UTF-8',
      ...(durable ? [] : ['--no-sync']),
    ],
    runAs,
    logPath: postgresLog(home),
    stopSignal: 'SIGTERM',
    exitSignal: 'SIGKILL',
  })
  const exitCode = await initdb.exited
  await rm(given)
  if (exitCode !== 0)
    throw new StoreStartError(`initdb failed; its last lines:\n${logTail(postgresLog(home))}`)
  await writeOwned(join(fresh, passwordFile), password, runAs)
  await rename(fresh, clusterDir(home))
}

async function writeOwned(path: string, text: string, owner: RunAs | undefined): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
  if (owner) await chown(path, owner.uid, owner.gid)
}

/**
 * Writes the pid of our process into a leftover pid file. Postgres refuses to start while a process with the file's pid is alive, even if
 * another program now has that pid. Postgres accepts the pid of its parent, and still checks the shared memory that the file names
 * (CreateLockFile in src/backend/utils/init/miscinit.c). Call it only after `endLeftPostgres`.
 */
async function disarmPidFile(data: string): Promise<void> {
  const path = join(data, 'postmaster.pid')
  const text = await readFile(path, 'utf8').catch(() => undefined)
  if (text !== undefined) await writeFile(path, text.replace(/^\d+/, String(process.pid)))
}

/** Creates the database `latchkey` if it does not exist. Returns false while the server does not respond. */
async function makeDatabase(url: string): Promise<boolean> {
  const maintenance = new URL(url)
  maintenance.pathname = '/postgres'
  const pool = createPool({
    url: maintenance.href,
    applicationName: 'latchkey dev start',
    connectionsMax: 1,
    queryTimeoutMs: 10_000,
    connectTimeoutMs: 2_000,
  })
  try {
    const found = await pool.query("SELECT FROM pg_database WHERE datname = 'latchkey'")
    if (found.rowCount === 0) await pool.query('CREATE DATABASE latchkey')
    return true
  } catch {
    return false
  } finally {
    await pool.end()
  }
}

import { existsSync } from 'node:fs'
import { chown, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { randomToken } from '#internal/base/index.ts'
import { logTail, type RunAs, spawnChild } from './child.ts'
import type { PostgresPlace } from './postgres-place.ts'
import { endProcesses } from './processes.ts'
import { StoreStartError } from './start-error.ts'

/** The user that owns the database; the only one there is. */
export const databaseUser = 'latchkey'
const passwordFile = 'latchkey.password'

/** The folder of the data proper. */
export function clusterDir(home: string): string {
  return join(home, 'data')
}

/** The file that gets what Postgres and initdb print. */
export function postgresLog(home: string): string {
  return join(home, 'postgres.log')
}

/**
 * Ends whatever an earlier process left running on these data: found by its command line, so a pid used again by somebody
 * else's program is never touched. Gives true when there was something.
 */
export async function endLeftPostgres(home: string): Promise<boolean> {
  const data = clusterDir(home)
  const ended = await endProcesses(
    ({ command }) =>
      command.includes(`/bin/postgres -D ${data}`) || command.includes(`/bin/initdb -D ${data}`),
    [
      { signal: 'SIGINT', waitMs: 15_000 },
      { signal: 'SIGQUIT', waitMs: 5_000 },
      { signal: 'SIGKILL', waitMs: 5_000 },
    ],
  )
  return ended.length > 0
}

/**
 * Makes the data when there are none, and gives their password. They are made aside and renamed when whole, password
 * included, so a start cut short at any point leaves nothing half made. The caller holds the folder.
 */
export async function prepareData(place: PostgresPlace, durable: boolean): Promise<string> {
  const data = clusterDir(place.home)
  if (!existsSync(join(data, 'PG_VERSION'))) await makeData(place, durable)
  await assertSameMajor(place)
  await disarmPidFile(data)
  return (await readFile(join(data, passwordFile), 'utf8')).trim()
}

async function makeData(place: PostgresPlace, durable: boolean): Promise<void> {
  const { home, native, runAs } = place
  const fresh = `${clusterDir(home)}.new`
  const given = join(home, 'initdb.password')
  await rm(fresh, { recursive: true, force: true })
  const password = randomToken()
  await writeOwned(given, password, runAs)
  const initdb = spawnChild({
    argv: [
      ...[join(native, 'bin', 'initdb'), '-D', fresh, '-U', databaseUser, `--pwfile=${given}`],
      ...['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C'],
      ...['--locale-provider=builtin', '--builtin-locale=C.UTF-8'],
      ...(durable ? [] : ['--no-sync']),
    ],
    ...(runAs && { runAs }),
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

async function writeOwned(path: string, text: string, owner?: RunAs): Promise<void> {
  await rm(path, { force: true })
  await writeFile(path, `${text}\n`, { mode: 0o600, flag: 'wx' })
  if (owner) await chown(path, owner.uid, owner.gid)
}

async function assertSameMajor(place: PostgresPlace): Promise<void> {
  const data = clusterDir(place.home)
  const written = (await readFile(join(data, 'PG_VERSION'), 'utf8')).trim()
  const program = Bun.spawnSync([join(place.native, 'bin', 'postgres'), '--version']).stdout.toString()
  const [, major] = /(\d+)/.exec(program) ?? []
  if (written !== major)
    throw new StoreStartError(
      `${data} was written by Postgres ${written} and this is ${major}: remove ${place.home}, or set LATCHKEY_DATA_DIR`,
    )
}

/**
 * Postgres refuses to start when the pid in its pid file lives, be it another program's by now. Nothing of ours runs on these
 * data any more, so the file gets our own pid, which Postgres takes for its parent's and passes over; it still checks the
 * shared memory that the file names (src/backend/utils/init/miscinit.c, CreateLockFile).
 */
async function disarmPidFile(data: string): Promise<void> {
  const path = join(data, 'postmaster.pid')
  const text = await readFile(path, 'utf8').catch(() => undefined)
  if (text !== undefined) await writeFile(path, text.replace(/^\d+/, String(process.pid)))
}

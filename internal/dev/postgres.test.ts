import { afterEach, describe, expect, test } from 'bun:test'
import { existsSync, mkdirSync, readFileSync, statSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createPool } from '#internal/storage/index.ts'
import { scratchFolder } from '#test/support/scratch.ts'
import { startPostgres } from './postgres.ts'
import { postgresHome } from './postgres-place.ts'
import { listProcesses, signalProcess } from './processes.ts'
import { removeStores } from './stores.ts'

const isRoot = process.getuid?.() === 0
const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await removeStores(folder)
})

function folder(options: { readonly closed?: boolean } = {}): string {
  const path = scratchFolder(options)
  folders.push(path)
  return path
}

function start(dataDir: string, onProgress?: (line: string) => void, durable = false) {
  return startPostgres({ dataDir, durable, ...(onProgress && { onProgress }) })
}

async function ask(url: string, statement: string): Promise<unknown> {
  const pool = createPool({
    url,
    applicationName: 'test',
    connectionsMax: 1,
    queryTimeoutMs: 5000,
    connectTimeoutMs: 5000,
  })
  try {
    const { rows } = await pool.query<{ value: unknown }>(statement)
    return rows[0]?.value
  } finally {
    await pool.end()
  }
}

const write = `CREATE TABLE kept AS SELECT 'yes'::text AS value`
const read = 'SELECT value FROM kept'

test('postgres: data and password survive a stop', async () => {
  const dataDir = folder()
  const first = await start(dataDir)
  await ask(first.url, write)
  await first.stop()
  const second = await start(dataDir)
  expect(await ask(second.url, read)).toBe('yes')
  expect(new URL(second.url).password).toBe(new URL(first.url).password)
  await second.stop()
  await second.stop()
})

describe('start after kill -9', () => {
  test('postgres: a start stops the server that a killed process left running, and keeps its data', async () => {
    const dataDir = folder()
    const told: string[] = []
    const left = await start(dataDir)
    await ask(left.url, write)
    const next = await start(dataDir, (line) => told.push(line))
    expect(told).toEqual(['Postgres: stopped the server that a killed run had left running'])
    expect((await listProcesses()).some(({ pid }) => pid === left.pid)).toBe(false)
    expect(await ask(next.url, read)).toBe('yes')
    await next.stop()
  })

  test('postgres: a start after a kill -9 of the server recovers its data', async () => {
    const dataDir = folder()
    const first = await start(dataDir, undefined, true)
    await ask(first.url, write)
    signalProcess(first.pid, 'SIGKILL')
    await first.exited
    const next = await start(dataDir)
    expect(await ask(next.url, read)).toBe('yes')
    await next.stop()
  })

  test('postgres: a pid file whose pid now belongs to another program does not block a start', async () => {
    const dataDir = folder()
    const first = await start(dataDir)
    signalProcess(first.pid, 'SIGKILL')
    await first.exited
    const home = postgresHome(dataDir)
    const { uid, gid } = statSync(home)
    // Runs the process as the user of Postgres, which checks only processes of its own user.
    const sleeper = Bun.spawn(['sleep', '600'], { cwd: '/', ...(isRoot && { uid, gid }) })
    const pidFile = join(home, 'data', 'postmaster.pid')
    writeFileSync(pidFile, readFileSync(pidFile, 'utf8').replace(/^\d+/, String(sleeper.pid)))
    const next = await start(dataDir)
    expect(await ask(next.url, 'SELECT 1 AS value')).toBe(1)
    expect(sleeper.exitCode).toBeNull()
    await next.stop()
    sleeper.kill()
    await sleeper.exited
  })

  test('postgres: incomplete data of an interrupted start are created again', async () => {
    const dataDir = folder()
    mkdirSync(join(dataDir, 'postgres', 'data.new'), { recursive: true })
    writeFileSync(join(dataDir, 'postgres', 'data.new', 'PG_VERSION'), '18\n')
    const postgres = await start(dataDir)
    expect(await ask(postgres.url, 'SELECT 1 AS value')).toBe(1)
    expect(existsSync(join(postgresHome(dataDir), 'data.new'))).toBe(false)
    await postgres.stop()
  })
})

test('postgres: data of another major version are refused with a remedy, and left unchanged', async () => {
  const dataDir = folder()
  const first = await start(dataDir)
  await first.stop()
  const version = join(postgresHome(dataDir), 'data', 'PG_VERSION')
  writeFileSync(version, '9\n')
  const starting = start(dataDir)
  expect(starting).rejects.toThrow('was written by Postgres 9')
  await starting.catch(() => undefined)
  expect(readFileSync(version, 'utf8')).toBe('9\n')
})

test('postgres: requires its password, which only its owner may read, and listens on the loopback address only', async () => {
  const dataDir = folder()
  const postgres = await start(dataDir)
  const wrong = new URL(postgres.url)
  wrong.password = 'wrong'
  expect(ask(wrong.href, 'SELECT 1 AS value')).rejects.toThrow('password authentication failed')
  const file = join(postgresHome(dataDir), 'data', 'latchkey.password')
  expect(statSync(file).mode & 0o777).toBe(0o600)
  expect(await ask(postgres.url, `SELECT current_setting('listen_addresses') AS value`)).toBe('127.0.0.1')
  await postgres.stop()
})

if (isRoot) {
  test('postgres as root: data of a folder that only root may enter are stored in /var/lib/latchkey-dev', async () => {
    const dataDir = folder({ closed: true })
    const told: string[] = []
    const first = await start(dataDir, (line) => told.push(line))
    await ask(first.url, write)
    await first.stop()
    const home = postgresHome(dataDir)
    expect(told).toEqual([`Only root may enter ${dataDir}: the database is kept in ${home}`])
    expect(home.startsWith('/var/lib/latchkey-dev/')).toBe(true)
    const second = await start(dataDir)
    expect(await ask(second.url, read)).toBe('yes')
    await second.stop()
    await removeStores(dataDir)
    expect(existsSync(home)).toBe(false)
  })

  test('postgres as root: data of an earlier folder of the same name are not reused', async () => {
    const dataDir = folder({ closed: true })
    const first = await start(dataDir)
    await ask(first.url, write)
    await first.stop()
    unlinkSync(join(dataDir, 'postgres'))
    const second = await start(dataDir)
    expect(await ask(second.url, `SELECT to_regclass('kept') AS value`)).toBeNull()
    await second.stop()
  })
}

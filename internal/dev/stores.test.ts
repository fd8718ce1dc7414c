import { afterEach, expect, test } from 'bun:test'
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import { listProcesses, poll, StoreStartError, signalProcess } from './processes.ts'
import { removeStores, startStores } from './stores.ts'

const root = resolve(import.meta.dir, '../..')
const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await removeStores(folder)
})

function folder(): string {
  const path = scratchFolder()
  folders.push(path)
  return path
}

async function runningIn(dataDir: string): Promise<string[]> {
  return (await listProcesses())
    .map(({ command }) => command)
    .filter((command) => command.includes(`${dataDir}/`))
}

/** Starts a process that starts both stores and then runs the code in `ending`. */
async function holder(dataDir: string, ending: string) {
  const code = `import { startStores } from '#internal/dev/index.ts'
    const stores = await startStores({ dataDir: ${JSON.stringify(dataDir)}, durable: true })
    console.log('up'); ${ending}`
  const child = Bun.spawn([process.execPath, '-e', code], { cwd: root, stdout: 'pipe', stderr: 'ignore' })
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('up\n')
  return child
}

test('stores: a folder in use is refused with its owner’s pid and the setting, and its stores keep running', async () => {
  const dataDir = folder()
  const first = await startStores({ dataDir, durable: false })
  const before = await runningIn(dataDir)
  const second = startStores({ dataDir, durable: false })
  expect(second).rejects.toThrow(
    new StoreStartError(
      `Another dev server (process ${process.pid}) uses ${dataDir}: stop that server, or set LATCHKEY_DATA_DIR to another folder`,
    ),
  )
  await second.catch(() => undefined)
  expect(await runningIn(dataDir)).toEqual(before)
  await first.stop()
  expect(await runningIn(dataDir)).toEqual([])
})

test('stores: a folder that cannot be written is refused with an error that names the folder and the setting', () => {
  const dataDir = '/dev/null/nowhere'
  expect(startStores({ dataDir, durable: false })).rejects.toThrow(
    `The folder ${dataDir} cannot be written; perhaps another user created it: remove it as that user, or set LATCHKEY_DATA_DIR`,
  )
})

test('stores: stores in two folders run side by side', async () => {
  const both = await Promise.all(
    [folder(), folder()].map((dataDir) => startStores({ dataDir, durable: false })),
  )
  expect(new Set(both.flatMap(({ databaseUrl, redisUrl }) => [databaseUrl, redisUrl])).size).toBe(4)
  await Promise.all(both.map((stores) => stores.stop()))
})

test('stores: configured URLs are returned, and no store is started', async () => {
  const dataDir = folder()
  const given = { databaseUrl: 'postgres://db.example/latchkey', redisUrl: 'redis://redis.example' }
  const stores = await startStores({ dataDir, durable: false, ...given })
  expect(stores).toMatchObject(given)
  expect(await runningIn(dataDir)).toEqual([])
  await stores.stop()
})

test('stores: `lost` names a store that exited unexpectedly', async () => {
  const dataDir = folder()
  const stores = await startStores({ dataDir, durable: false, databaseUrl: 'postgres://db.example/latchkey' })
  const redis = (await listProcesses()).find(({ command }) => command.includes(`${dataDir}/redis/redis.conf`))
  if (redis) signalProcess(redis.pid, 'SIGKILL')
  expect(await stores.lost).toBe('Redis')
  await stores.stop()
})

test('removeStores: stops the stores of a killed process and removes the folder', async () => {
  const dataDir = folder()
  const other = await holder(dataDir, 'setInterval(() => {}, 1000)')
  other.kill('SIGKILL')
  await other.exited
  expect((await runningIn(dataDir)).length).toBeGreaterThanOrEqual(2)
  await removeStores(dataDir)
  expect(await runningIn(dataDir)).toEqual([])
  expect(existsSync(dataDir)).toBe(false)
})

test.each([
  ['exits', 'process.exit(0)'],
  ['throws uncaught', 'setTimeout(() => { throw new Error("bug") }, 1)'],
  ['rejects unhandled', 'Promise.reject(new Error("bug"))'],
])('stores: no store outlives a process that %s', async (_case, ending) => {
  const dataDir = folder()
  const other = await holder(dataDir, ending)
  await other.exited
  const gone = await poll(async () => (await runningIn(dataDir)).length === 0 || undefined, {
    deadlineMs: 10_000,
  })
  expect(gone).toBe(true)
})

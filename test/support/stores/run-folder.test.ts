import { afterEach, expect, test } from 'bun:test'
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { listProcesses } from '#internal/dev/index.ts'
import { root } from '../processes/dev-server.ts'
import { scratchFolder } from '../scratch.ts'

const started: Bun.Subprocess[] = []
const folders: string[] = []
afterEach(async () => {
  for (const child of started.splice(0)) {
    child.kill('SIGTERM')
    await child.exited
  }
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

/** Starts a test process with one Redis and its own folder of temporary files. */
async function testProcess(temporary: string): Promise<Bun.Subprocess> {
  const code = `import '#test/support/processes/exit-signals.ts'
    import { createTestRedis } from '#test/support/stores.ts'
    await createTestRedis(); console.log('up'); setInterval(() => {}, 1000)`
  const env = { ...process.env, LATCHKEY_TEST_STORES_DIR: temporary }
  const child = Bun.spawn([process.execPath, '-e', code], { cwd: root, env, stdout: 'pipe' })
  started.push(child)
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('up\n')
  return child
}

async function redisesBelow(temporary: string): Promise<number> {
  return (await listProcesses()).filter(({ command }) => command.includes(`${temporary}/`)).length
}

function runFolders(temporary: string): string[] {
  const [base = ''] = readdirSync(temporary)
  return readdirSync(join(temporary, base)).filter((name) => name.startsWith('run-'))
}

test('run folder: the next process removes stores and folder of a killed test process, but not of a live process', async () => {
  const temporary = scratchFolder()
  folders.push(temporary)
  const live = await testProcess(temporary)
  const [liveFolder] = runFolders(temporary)
  const killed = await testProcess(temporary)
  killed.kill('SIGKILL')
  await killed.exited
  expect(await redisesBelow(temporary)).toBe(2)
  const next = await testProcess(temporary)
  expect(await redisesBelow(temporary)).toBe(2)
  expect(runFolders(temporary)).toHaveLength(2)
  expect(runFolders(temporary)).toContain(`${liveFolder}`)
  for (const child of [live, next]) {
    child.kill('SIGTERM')
    expect(await child.exited).toBe(143)
  }
})

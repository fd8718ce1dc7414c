import { afterEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import { lockFolder } from './folder-lock.ts'

const root = resolve(import.meta.dir, '../..')
const folders: string[] = []
afterEach(() => {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function folder(): string {
  const path = scratchFolder()
  folders.push(path)
  return path
}

/** Another process that takes the folder and keeps it until it is killed. */
async function otherHolder(dir: string): Promise<Bun.Subprocess> {
  const code = `import { lockFolder } from '#internal/dev/index.ts'
    console.log(lockFolder(${JSON.stringify(dir)}).kind); setInterval(() => {}, 1000)`
  const child = Bun.spawn([process.execPath, '-e', code], { cwd: root, stdout: 'pipe' })
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('locked\n')
  return child
}

test('a folder that another process holds is refused with its pid, and free once that is killed', async () => {
  const dir = folder()
  const other = await otherHolder(dir)
  expect(lockFolder(dir)).toEqual({ kind: 'taken', pid: other.pid })
  other.kill('SIGKILL')
  await other.exited
  const again = lockFolder(dir)
  expect(again.kind).toBe('locked')
  if (again.kind === 'locked') again.lock.release()
})

test('one process holds a folder once', () => {
  const dir = folder()
  const first = lockFolder(dir)
  expect(lockFolder(dir)).toEqual({ kind: 'taken', pid: process.pid })
  if (first.kind === 'locked') first.lock.release()
  const second = lockFolder(dir)
  expect(second.kind).toBe('locked')
  if (second.kind === 'locked') second.lock.release()
})

test('two folders are two locks', () => {
  const locks = [lockFolder(folder()), lockFolder(folder())]
  expect(locks.map(({ kind }) => kind)).toEqual(['locked', 'locked'])
  for (const result of locks) if (result.kind === 'locked') result.lock.release()
})

test('a folder that cannot be written is an error, not a taken one', () => {
  expect(() => lockFolder('/dev/null/nowhere')).toThrow()
})

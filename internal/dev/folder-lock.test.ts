import { afterEach, expect, test } from 'bun:test'
import { rmSync } from 'node:fs'
import { resolve } from 'node:path'
import { scratchFolder } from '#test/support/scratch.ts'
import { lockFolder } from './folder-lock.ts'

const root = resolve(import.meta.dir, '../..')
const folders: string[] = []
const holders: Bun.Subprocess[] = []
afterEach(() => {
  for (const holder of holders.splice(0)) holder.kill('SIGKILL')
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true })
})

function folder(): string {
  const path = scratchFolder()
  folders.push(path)
  return path
}

/** Starts a process that locks the folder, drops the reference to the lock, runs the garbage collector, and waits to be killed. */
async function otherHolder(dir: string): Promise<Bun.Subprocess> {
  const code = `import { lockFolder } from './internal/dev/folder-lock.ts'
    const { kind } = lockFolder(${JSON.stringify(dir)}); Bun.gc(true)
    setTimeout(() => { Bun.gc(true); console.log(kind) }, 1); setInterval(() => {}, 1000)`
  const child = Bun.spawn([process.execPath, '-e', code], { cwd: root, stdout: 'pipe' })
  holders.push(child)
  const { value } = await child.stdout.getReader().read()
  expect(new TextDecoder().decode(value)).toBe('locked\n')
  return child
}

test('folder lock: refuses a folder that another process has locked, and names its pid, until that process is killed', async () => {
  const dir = folder()
  const other = await otherHolder(dir)
  expect(lockFolder(dir)).toEqual({ kind: 'taken', pid: other.pid })
  other.kill('SIGKILL')
  await other.exited
  const again = lockFolder(dir)
  expect(again.kind).toBe('locked')
  if (again.kind === 'locked') again.lock.release()
})

test('folder lock: one process cannot lock a folder twice, but can lock it again after a release', () => {
  const dir = folder()
  const first = lockFolder(dir)
  expect(lockFolder(dir)).toEqual({ kind: 'taken', pid: process.pid })
  if (first.kind === 'locked') first.lock.release()
  const second = lockFolder(dir)
  expect(second.kind).toBe('locked')
  if (second.kind === 'locked') second.lock.release()
})

test('folder lock: two folders are locked independently', () => {
  const locks = [lockFolder(folder()), lockFolder(folder())]
  expect(locks.map(({ kind }) => kind)).toEqual(['locked', 'locked'])
  for (const result of locks) if (result.kind === 'locked') result.lock.release()
})

test('folder lock: throws for a folder that cannot be written, instead of reporting it as locked', () => {
  expect(() => lockFolder('/dev/null/nowhere')).toThrow()
})

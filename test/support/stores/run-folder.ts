import { lstatSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { type FolderLock, lockFolder, removeStores } from '#internal/dev/index.ts'
import { storesRoot } from './stores-root.ts'

/** Folder of one test process, locked until closed. */
export interface RunFolder {
  readonly path: string
  /** Removes the folder; the stores in it must have been stopped. */
  close(): Promise<void>
}

const turnWaitMs = 30_000

/**
 * Creates this process's folder, and removes the folders of killed test processes with their running stores. Each process holds a
 * kernel lock on its folder, so those of live processes are kept.
 */
export async function openRunFolder(): Promise<RunFolder> {
  const root = openRoot()
  const opened = inTurn(root, () => {
    const dead = takeDeadFolders(root)
    const path = mkdtempSync(join(root, 'run-'))
    return { dead, own: { path, lock: take(path) } }
  })
  makeEnterable(opened.own.path)
  for (const folder of opened.dead) await removeFolder(root, folder)
  return { path: opened.own.path, close: () => removeFolder(root, opened.own) }
}

/** Lock: one process at a time lists, creates or removes folders. */
function inTurn<T>(root: string, work: () => T): T {
  const turn = take(root, turnWaitMs)
  try {
    return work()
  } finally {
    turn.release()
  }
}

function take(path: string, waitMs = 0): FolderLock {
  const result = lockFolder(path, waitMs)
  if (result.kind === 'taken') throw new Error(`process ${result.pid} holds ${path} for too long`)
  return result.lock
}

interface HeldFolder {
  readonly path: string
  readonly lock: FolderLock
}

function openRoot(): string {
  const uid = process.getuid?.() ?? 0
  const root = join(storesRoot(), `latchkey-test-${uid}`)
  mkdirSync(root, { recursive: true, mode: 0o700 })
  // Checks the owner, because the name is predictable, so another user may have created the folder first.
  const facts = lstatSync(root)
  if (!facts.isDirectory() || facts.uid !== uid) throw new Error(`${root} belongs to another user; remove it`)
  makeEnterable(root)
  return root
}

/** Opens the path for the other user under which stores run if the tests run as root. */
function makeEnterable(path: string): void {
  if (process.getuid?.() === 0) Bun.spawnSync(['chmod', '711', path])
}

function takeDeadFolders(root: string): HeldFolder[] {
  const dead: HeldFolder[] = []
  for (const name of readdirSync(root)) {
    const path = join(root, name)
    // Completes a removal that another process began before it was killed.
    if (name.startsWith('gone-')) rmSync(path, { recursive: true, force: true })
    if (!name.startsWith('run-')) continue
    const result = lockFolder(path)
    if (result.kind === 'locked') dead.push({ path, lock: result.lock })
  }
  return dead
}

async function removeFolder(root: string, folder: HeldFolder): Promise<void> {
  for (const entry of readdirSync(folder.path, { withFileTypes: true }))
    if (entry.isDirectory()) await removeStores(join(folder.path, entry.name))
  const gone = join(root, basename(folder.path).replace('run-', 'gone-'))
  inTurn(root, () => {
    renameSync(folder.path, gone)
    folder.lock.release()
  })
  await rm(gone, { recursive: true, force: true })
}

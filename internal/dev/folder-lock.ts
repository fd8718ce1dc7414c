import { Database } from 'bun:sqlite'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Lock that gives this process exclusive use of a folder until it calls `release` or ends, even by a crash. */
export interface FolderLock {
  /** Releases the folder. Repeating the call is safe. */
  release(): void
}

/** References that prevent garbage collection, which would close a database and so release its folder. */
const held = new Set<Database>()

/**
 * Locks a folder for this process by an exclusive transaction on a SQLite file, because Bun has no flock. The kernel releases the lock of
 * that file when the process ends, even after kill -9. The stored pid is used in messages only.
 * @param waitMs maximum wait while another process holds the lock; 0 tries once
 * @returns the lock, or the id of the process that holds it, if known
 */
export function lockFolder(
  dir: string,
  waitMs = 0,
):
  | { readonly kind: 'locked'; readonly lock: FolderLock }
  | { readonly kind: 'taken'; readonly pid: number | undefined } {
  const pidPath = join(dir, 'lock.pid')
  const database = new Database(join(dir, 'lock.db'), { create: true })
  try {
    database.run(`PRAGMA busy_timeout = ${waitMs}`)
    database.run('BEGIN EXCLUSIVE')
  } catch (error) {
    database.close()
    if (!(error instanceof Error && 'code' in error && error.code === 'SQLITE_BUSY')) throw error
    return { kind: 'taken', pid: readPid(pidPath) }
  }
  held.add(database)
  writeFileSync(pidPath, `${process.pid}\n`)
  const release = () => {
    held.delete(database)
    database.close()
  }
  return { kind: 'locked', lock: { release } }
}

/** Returns the pid of the process that holds the lock; undefined while that process has not written its pid. */
function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'utf8'))
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
  } catch {
    return undefined
  }
}

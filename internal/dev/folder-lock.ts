import { Database } from 'bun:sqlite'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Exclusive use of a folder. It ends with `release` or with the process, even after a crash. */
export interface FolderLock {
  /** Releases the folder. Repeating it is safe. */
  release(): void
}

/** Result of locking a folder. `pid` identifies the process that holds the lock, if known. */
export type LockResult =
  | { readonly kind: 'locked'; readonly lock: FolderLock }
  | { readonly kind: 'taken'; readonly pid: number | undefined }

/** References all held locks, because garbage collection would close the `Database` and release its folder. */
const held = new Set<Database>()

/**
 * Locks a folder for this process. The kernel locks a SQLite file, so the lock ends even after kill -9, and a reused pid does no harm. The
 * stored pid is used in messages only. SQLite is used because Bun has no flock.
 * @param waitMs maximum wait while another process holds the lock; 0 tries once
 */
export function lockFolder(dir: string, waitMs = 0): LockResult {
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

/** Returns the pid of the process that holds the lock, or undefined while that process has not written its pid. */
function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'utf8'))
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
  } catch {
    return undefined
  }
}

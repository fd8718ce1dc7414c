import { Database } from 'bun:sqlite'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** Exclusive use of a folder. It ends with `release` or with the process, however that ends. */
export interface FolderLock {
  /** Releases the folder. Repeating it is safe. */
  release(): void
}

/** Result of a request for a folder; `pid` is the holder's where it is known. */
export type LockResult =
  | { readonly kind: 'locked'; readonly lock: FolderLock }
  | { readonly kind: 'taken'; readonly pid: number | undefined }

/** Keeps locks alive: a `Database` that is garbage collected is closed, which would release its folder. */
const held = new Set<Database>()

/**
 * Locks a folder for this process. The kernel holds the lock on a SQLite file, so that it falls even after kill -9 and a reused pid
 * means nothing; the pid beside it is for messages only. SQLite, because Bun has no flock.
 * @param waitMs bound of the wait for another holder; 0 asks once
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

/** Returns undefined while the holder has not written its pid yet. */
function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'utf8'))
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
  } catch {
    return undefined
  }
}

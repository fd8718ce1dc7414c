import { Database } from 'bun:sqlite'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** The right to a data folder. It ends with `release` or with the process, however that ends. */
export interface FolderLock {
  /** Gives the folder back. Repeating it is safe. */
  release(): void
}

/** What asking for a folder gave. */
export type LockResult =
  | { readonly kind: 'locked'; readonly lock: FolderLock }
  | { readonly kind: 'taken'; readonly pid: number | undefined }

/**
 * Takes a folder for this process. The lock is the kernel's, held on a SQLite file: it falls with its process, so that a
 * kill -9 leaves none behind and a pid used again by another program means nothing. The pid beside it is only for messages.
 * Bun gives no flock, hence SQLite.
 * @param waitMs how long to wait for another holder; 0 asks once
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
  writeFileSync(pidPath, `${process.pid}\n`)
  return { kind: 'locked', lock: { release: () => database.close() } }
}

function readPid(path: string): number | undefined {
  try {
    const pid = Number(readFileSync(path, 'utf8'))
    return Number.isSafeInteger(pid) && pid > 0 ? pid : undefined
  } catch {
    // The holder has the lock but has not written its pid yet.
    return undefined
  }
}

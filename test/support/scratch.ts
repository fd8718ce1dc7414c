import { chmodSync, mkdtempSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { storesRoot } from './stores/stores-root.ts'

/**
 * Creates an empty folder for one test's stores; the test removes it by `removeStores`, which also ends stores running in it.
 * As root, other users may enter it, since Postgres then runs as another user, unless `closed`.
 */
export function scratchFolder(options: { readonly closed?: boolean } = {}): string {
  const path = realpathSync(mkdtempSync(join(storesRoot(), 'latchkey-scratch-')))
  chmodSync(path, options.closed ? 0o700 : 0o711)
  return path
}

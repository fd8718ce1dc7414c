import { chmodSync, mkdtempSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { storesRoot } from './stores-root.ts'

/**
 * Makes an empty folder for one test's stores; the test removes it with `removeStores`, which ends what may still run there.
 * As root others may pass through it, since Postgres then runs as another user; `closed` keeps them out.
 */
export function scratchFolder(options: { readonly closed?: boolean } = {}): string {
  const path = realpathSync(mkdtempSync(join(storesRoot(), 'latchkey-scratch-')))
  chmodSync(path, options.closed ? 0o700 : 0o711)
  return path
}

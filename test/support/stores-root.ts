import { accessSync, constants, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'
const freeBytesMin = 4 * 1024 ** 3

/**
 * Where tests keep their stores: in memory where there is room for them, since hundreds of databases are made and dropped, which is
 * mostly work for a file system; else among temporary files. `LATCHKEY_TEST_STORES_DIR` names another folder.
 */
export function storesRoot(): string {
  const given = process.env['LATCHKEY_TEST_STORES_DIR']
  if (given) return given
  try {
    accessSync(memory, constants.W_OK)
    const { bavail, bsize } = statfsSync(memory)
    return bavail * bsize >= freeBytesMin ? memory : tmpdir()
  } catch {
    return tmpdir()
  }
}

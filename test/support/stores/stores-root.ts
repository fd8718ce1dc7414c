import { accessSync, constants, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'

const memory = '/dev/shm'
const freeBytesMin = 4 * 1024 ** 3

/**
 * Returns the folder of the tests' stores: /dev/shm if it has room, since creating hundreds of databases is mostly file system
 * work; else the temporary folder. `LATCHKEY_TEST_STORES_DIR` overrides it.
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

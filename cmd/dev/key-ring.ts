import { randomBytes } from 'node:crypto'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreStartError } from '#internal/dev/index.ts'
import { type KeyRing, parseKeyRing } from '#internal/tenants/index.ts'

/**
 * Gives the key ring that was set, else the data folder's own, made at the first start and readable by its owner only: what it
 * sealed must open again after a restart.
 * @throws StoreStartError when the folder's file is none
 */
export async function openKeyRing(given: string | undefined, dataDir: string): Promise<KeyRing> {
  const path = join(dataDir, 'key-ring')
  const parsed = parseKeyRing(given ?? (await readOrMake(path)))
  if (parsed.kind === 'ok') return parsed.keyRing
  throw new StoreStartError(`${given === undefined ? path : 'LATCHKEY_KEY_RING'}: ${parsed.message}`)
}

async function readOrMake(path: string): Promise<string> {
  const kept = await readFile(path, 'utf8').catch(() => undefined)
  if (kept !== undefined) return kept.trim()
  const made = `dev:${randomBytes(32).toString('base64')}`
  await writeFile(path, `${made}\n`, { mode: 0o600, flag: 'wx' })
  return made
}

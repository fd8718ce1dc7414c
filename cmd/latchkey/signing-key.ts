import { open } from 'node:fs/promises'
import type { SigningKey } from '#internal/delivery/index.ts'
import type { ApiClient } from './api-client.ts'
import { exitCodes, type Problem } from './cli.ts'

const secretBytesMax = 4_096

export const secretOption = [
  '--secret-file <path>',
  'file with the signing secret; default: LATCHKEY_SIGNING_SECRET, then the secret of latchkey listen',
] as const

/**
 * Reads the file, or else the environment. Without both, returns the secret of listeners. It is derived from the API key, so it is the same
 * each time, and is no secret of the service.
 */
export async function chooseSigningKey(
  api: ApiClient<'public'>,
  { path, given }: { readonly path: string | undefined; readonly given: string | undefined },
): Promise<
  | {
      readonly key: SigningKey
      /** Secret of listeners, which receivers on this machine need. Present if `key` is made from it. */
      readonly listenerSecret?: string
    }
  | Problem
> {
  const secret = path === undefined ? given : await readSecret(path)
  if (typeof secret === 'object') return secret
  const own = `whsec_${api.deriveSecret('signing secret of latchkey listen').toString('base64')}`
  // Loaded here, because most commands do not need deliveries.
  const { prepareSigningKey } = await import('#internal/delivery/index.ts')
  const key = prepareSigningKey(secret?.trim() ?? own)
  const place = path ?? 'LATCHKEY_SIGNING_SECRET'
  if (key === undefined)
    return misuse(`${place} is no signing secret: expected whsec_ followed by the base64 of 24 to 64 bytes`)
  return secret === undefined ? { key, listenerSecret: own } : { key }
}

async function readSecret(path: string): Promise<string | Problem> {
  try {
    await using file = await open(path)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(secretBytesMax), 0, secretBytesMax)
    return buffer.toString('utf8', 0, bytesRead)
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return misuse(`${path} cannot be read: ${reason}`)
  }
}

function misuse(problem: string): Problem {
  return { problem, exitCode: exitCodes.misused }
}

import { createHash } from 'node:crypto'
import type { Encoding } from './schema.ts'

/** Decodes text to bytes; undefined for text that is not exactly of the encoding. */
export type Decode = (text: string) => Uint8Array | undefined

/** Maximum characters of an encoded signature: base64 of 8192 bits. */
const encodedCharsMax = 1368

/** Returns the decoder of digests of a fixed length in bytes. */
export function digestDecoder(encoding: Encoding, bytes: number): Decode {
  const form = digestForm(encoding, bytes)
  return (text) => (form.test(text) ? Buffer.from(text, encoding) : undefined)
}

function digestForm(encoding: Encoding, bytes: number): RegExp {
  if (encoding === 'hex') return new RegExp(`^[0-9a-fA-F]{${bytes * 2}}$`)
  const padding = (3 - (bytes % 3)) % 3
  const chars = Math.ceil((bytes * 4) / 3)
  return encoding === 'base64'
    ? new RegExp(`^[A-Za-z0-9+/]{${chars}}${'='.repeat(padding)}$`)
    : new RegExp(`^[A-Za-z0-9_-]{${chars}}={0,${padding}}$`)
}

/** Pattern of digests for the documentation. */
export function digestPattern(encoding: Encoding, bytes: number): string {
  return digestForm(encoding, bytes).source.slice(1, -1)
}

const forms: Record<Encoding, RegExp> = {
  hex: /^(?:[0-9a-fA-F]{2})+$/,
  base64: /^[A-Za-z0-9+/]+={0,2}$/,
  base64url: /^[A-Za-z0-9_-]+={0,2}$/,
}

/**
 * Decodes bytes of any length up to 1368 characters. Base64 must be padded; base64url need not be. The text must be the canonical one of its
 * bytes, so that a changed text never decodes to the same signature.
 */
export function decodeText(text: string, encoding: Encoding): Uint8Array | undefined {
  if (text.length > encodedCharsMax || !forms[encoding].test(text)) return undefined
  const bytes = Buffer.from(text, encoding)
  const given = encoding === 'base64url' ? text.replace(/=+$/, '') : text
  return encoding === 'hex' || bytes.toString(encoding) === given ? bytes : undefined
}

/** Returns the SHA-256 of text or bytes. */
export function sha256(content: string | Uint8Array): Buffer {
  return createHash('sha256').update(content).digest()
}

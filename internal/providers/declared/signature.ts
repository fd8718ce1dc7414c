import { createHash, timingSafeEqual } from 'node:crypto'
import { type Refused, refused } from '../provider.ts'
import type { HeaderReading } from './call.ts'
import type { Encoding, Scheme } from './schema.ts'

/** Keyed HMAC objects. For a 1 KB body, an HMAC takes 1.3 µs with a copy and 2.3 µs with a new object (Bun 1.4.5, 2026-11). */
export type HmacKeys = readonly Bun.CryptoHasher[]

const malformed = refused('signature_malformed')
const unknown = refused('scheme_unknown')

export const verdicts = {
  verified: { kind: 'verified' },
  mismatch: refused('signature_mismatch'),
  missing: refused('signature_missing'),
  malformed,
  unknown,
  outside: refused('timestamp_outside_window'),
} as const

export type HmacHash = 'sha1' | 'sha256' | 'sha384' | 'sha512'

/** Uses text as UTF-8 bytes. Skips empty secrets, with which anyone could sign. */
export function hmacKeys(secrets: readonly (string | Uint8Array)[], hash: HmacHash = 'sha256'): HmacKeys {
  return secrets
    .filter((secret) => secret.length > 0)
    .map((secret) => new Bun.CryptoHasher(hash, Buffer.from(secret)))
}

/** Compares each signature with each key in constant time. @param parts concatenated; text is used as its UTF-8 bytes */
export function isSigned(
  keys: HmacKeys,
  parts: readonly (string | Uint8Array)[],
  signatures: readonly Uint8Array[],
): boolean {
  let matches = 0
  for (const key of keys) {
    const hmac = key.copy()
    for (const part of parts) hmac.update(part)
    const expected = hmac.digest()
    for (const signature of signatures) matches += equalBytes(expected, signature) ? 1 : 0
  }
  return matches > 0
}

/** Compares in constant time. Reveals only whether the lengths differ. */
export function equalBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}

/** Returns whether a signed time is near the clock, in both directions. */
export function isInWindow(atMs: number, nowMs: number, ageMsMax: number): boolean {
  return Math.abs(nowMs - atMs) <= ageMsMax
}

/** Undefined for text that is not exactly of the encoding. */
export type Decode = (text: string) => Uint8Array | undefined

/** Maximum length of an encoded signature: 8192 bits in base64. */
const encodedCharsMax = 1368

/** Decodes digests of a fixed length in bytes. */
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

export function digestPattern(encoding: Encoding, bytes: number): string {
  return digestForm(encoding, bytes).source.slice(1, -1)
}

const forms: Record<Encoding, RegExp> = {
  hex: /^(?:[0-9a-fA-F]{2})+$/,
  base64: /^[A-Za-z0-9+/]+={0,2}$/,
  base64url: /^[A-Za-z0-9_-]+={0,2}$/,
}

/**
 * Accepts up to 1368 characters. Base64 must be padded; base64url need not be. Only the canonical text of the bytes is accepted, so that a
 * changed text never decodes to the same signature.
 */
export function decodeText(text: string, encoding: Encoding): Uint8Array | undefined {
  if (text.length > encodedCharsMax || !forms[encoding].test(text)) return undefined
  const bytes = Buffer.from(text, encoding)
  const given = encoding === 'base64url' ? text.replace(/=+$/, '') : text
  return encoding === 'hex' || bytes.toString(encoding) === given ? bytes : undefined
}

export function sha256(content: string | Uint8Array): Buffer {
  return createHash('sha256').update(content).digest()
}

/** Maximum number of signatures of a call. Senders use two while they rotate a secret. */
const signaturesMax = 20
export const signatureCharsMax = 4096

/** `texts` are the encoded signatures; if there are none, the call uses another scheme. `signatures` are the decoded ones. */
export type ParsedSignature =
  | {
      readonly kind: 'signatures'
      readonly texts: readonly string[]
      readonly signatures: readonly Uint8Array[]
      /** Signed time, if the scheme has the time next to the signature. */
      readonly time: string | undefined
    }
  | Refused

export type ParseSignature = (value: string) => ParsedSignature

export function compileSignature({ signature, timestamp, encoding }: Scheme, decode: Decode): ParseSignature {
  const { prefix, pairs, list } = signature
  if (pairs !== undefined) return pairsParser(pairs, timestamp?.pair, encoding !== 'hex', decode)
  if (list !== undefined) return listParser(list.separator, decode)
  return wholeParser(prefix ?? '', decode)
}

function wholeParser(prefix: string, decode: Decode): ParseSignature {
  const mark = prefix.slice(-1)
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    if (!value.startsWith(prefix)) return value.includes(mark) ? unknown : malformed
    const text = value.slice(prefix.length)
    const signature = decode(text)
    return signature === undefined
      ? malformed
      : { kind: 'signatures', texts: [text], signatures: [signature], time: undefined }
  }
}

/**
 * Skips pairs with other names and undecodable signatures. A pair must contain the assigning character once. Exception: base64 padding may
 * repeat `=` at the end.
 */
function pairsParser(
  { separator, assign, name, emptyValues = false }: NonNullable<Scheme['signature']['pairs']>,
  timeName: string | undefined,
  hasPadding: boolean,
  decode: Decode,
): ParseSignature {
  const trims = separator !== ' '
  const mayPad = hasPadding && assign === '='
  // A header that is sent twice is joined by a comma. Without a time, this looks like one header with two signatures, and is refused.
  const isRepeatable = timeName !== undefined || !separator.includes(',')
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    const texts: string[] = []
    let time: string | undefined
    for (const part of value.split(separator)) {
      const pair = trims ? part.trim() : part
      const at = pair.indexOf(assign)
      if (at < 0) return malformed
      const text = pair.slice(at + 1)
      const checked = mayPad ? text.replace(/={1,2}$/, '') : text
      if (checked.includes(assign) || (!emptyValues && (at === 0 || text === ''))) return malformed
      const own = pair.slice(0, at)
      if (own === timeName) {
        if (time !== undefined) return malformed
        time = text
      }
      if (own === name) {
        if (!isRepeatable && texts.includes(text)) return malformed
        texts.push(text)
      }
    }
    if (texts.length > signaturesMax) return malformed
    // Reports a value without its time as malformed, not as a value of an unknown scheme.
    if (timeName !== undefined && time === undefined) return malformed
    return { kind: 'signatures', texts, signatures: decodeAll(texts, decode), time }
  }
}

function decodeAll(texts: readonly string[], decode: Decode): Uint8Array[] {
  return texts.map(decode).filter((each) => each !== undefined)
}

/** All signatures of the list must be decodable. */
function listParser(separator: string, decode: Decode): ParseSignature {
  return (value) => {
    if (value.length > signatureCharsMax) return malformed
    const [time, ...texts] = value.split(separator).map((item) => item.trim())
    const signatures = decodeAll(texts, decode)
    const fits = texts.length > 0 && texts.length <= signaturesMax && signatures.length === texts.length
    return fits ? { kind: 'signatures', texts, signatures, time } : malformed
  }
}

/** Adds the signatures of further headers. Skips malformed headers. */
export function withMore(
  first: ParsedSignature,
  more: readonly HeaderReading[],
  parse: ParseSignature,
): ParsedSignature {
  if (first.kind !== 'signatures') return first
  const others = more
    .map((reading) => (reading.kind === 'value' ? parse(reading.value) : malformed))
    .filter((each) => each.kind === 'signatures')
  const all = [first, ...others]
  return {
    ...first,
    texts: all.flatMap(({ texts }) => texts),
    signatures: all.flatMap(({ signatures }) => signatures).slice(0, signaturesMax),
  }
}

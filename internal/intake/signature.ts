import { timingSafeEqual } from 'node:crypto'
import type { Verification } from './provider.ts'

/**
 * Active keys of a provider as keyed HMAC objects. For a 1 KB body, an HMAC takes 1.3 µs with a copy of such an object and 2.3 µs with a
 * new object (Bun 1.4.5, 2026-11).
 */
export type HmacKeys = readonly Bun.CryptoHasher[]

/** Maximum signatures in a header. Senders use two while they rotate a secret. */
const signaturesMax = 20
const signatureHeaderCharsMax = 4096

const standardPrefix = 'whsec_'
/** Minimum key length of Standard Webhooks, in bytes. */
const standardKeyBytesMin = 24

const verified: Verification = { kind: 'verified' }
const mismatch: Verification = { kind: 'refused', cause: 'signature_mismatch' }
const missing: Verification = { kind: 'refused', cause: 'signature_missing' }
const malformed: Verification = { kind: 'refused', cause: 'signature_malformed' }
const unknown: Verification = { kind: 'refused', cause: 'scheme_unknown' }
const outside: Verification = { kind: 'refused', cause: 'timestamp_outside_window' }

/** Results of `verify`, which all adapters share. */
export const verdicts = { verified, mismatch, missing, malformed, unknown, outside } as const

/** Creates HMAC-SHA256 keys; text is used as its UTF-8 bytes. Skips empty secrets, with which anyone could sign. */
export function hmacKeys(secrets: readonly (string | Uint8Array)[]): HmacKeys {
  return secrets
    .filter((secret) => secret.length > 0)
    .map((secret) => new Bun.CryptoHasher('sha256', Buffer.from(secret)))
}

/**
 * Creates keys from Standard Webhooks secrets. After the prefix `whsec_`, base64 is decoded. A secret without the prefix becomes two keys,
 * one from its own bytes and one from the decoded base64, since senders use either.
 */
export function standardHmacKeys(secrets: readonly string[]): HmacKeys {
  return hmacKeys(
    secrets.flatMap((secret) => {
      const prefixed = secret.startsWith(standardPrefix)
      const decoded = decodeBase64(prefixed ? secret.slice(standardPrefix.length) : secret)
      // A short secret that happens to be valid base64 would become a key that is easy to guess, so it is not decoded.
      const meant = decoded !== undefined && decoded.length >= standardKeyBytesMin ? [decoded] : []
      return prefixed ? meant : [...meant, secret]
    }),
  )
}

function decodeBase64(text: string): Uint8Array | undefined {
  return /^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0
    ? Buffer.from(text, 'base64')
    : undefined
}

/**
 * Returns whether a signature is the HMAC-SHA256 of the concatenated parts under one of the keys. Constant time: compares each signature
 * with each key.
 * @param parts text is used as its UTF-8 bytes
 */
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

/** Compares bytes in constant time. Reveals only whether the lengths differ. */
export function equalBytes(left: Uint8Array, right: Uint8Array): boolean {
  return left.length === right.length && timingSafeEqual(left, right)
}

/** Decodes 64 hex digits to 32 bytes; undefined for any other text. */
export function decodeHexDigest(text: string): Uint8Array | undefined {
  return /^[0-9a-fA-F]{64}$/.test(text) ? Buffer.from(text, 'hex') : undefined
}

/** Decodes 44 characters of base64 to 32 bytes; undefined for any other text. */
export function decodeBase64Digest(text: string): Uint8Array | undefined {
  return /^[A-Za-z0-9+/]{43}=$/.test(text) ? Buffer.from(text, 'base64') : undefined
}

/** Parses a Unix time in seconds, 1 to 12 digits. Keeps the received text, since the signature covers it. */
export function parseSignedTime(text: string): { readonly text: string; readonly atMs: number } | undefined {
  return /^[0-9]{1,12}$/.test(text) ? { text, atMs: Number(text) * 1000 } : undefined
}

/** Input for checking a signature that covers a time. */
export interface TimedCheck {
  readonly body: Uint8Array
  readonly nowMs: number
  /** Maximum difference in milliseconds between the time and `nowMs`, in both directions. */
  readonly signatureAgeMsMax: number
}

/** Returns whether a signed time is within the allowed distance of the clock. */
export function isInWindow(atMs: number, { nowMs, signatureAgeMsMax }: TimedCheck): boolean {
  return Math.abs(nowMs - atMs) <= signatureAgeMsMax
}

/**
 * Checks a header `t=<unix seconds>,v1=<hex>[,v1=…]`, where each `v1` is the HMAC-SHA256 of `<t>.<body>`. One match is enough. Skips
 * unknown schemes and undecodable signatures. Refuses a header that contains other text than `name=value` pairs or not exactly one `t`.
 * @param header '' if absent
 */
export function verifyTimedHeader(header: string, check: TimedCheck, keys: HmacKeys): Verification {
  if (header === '') return missing
  const parsed = parseTimedHeader(header)
  if (parsed === undefined) return malformed
  if (parsed.v1Count === 0) return unknown
  if (parsed.signatures.length === 0) return malformed
  if (!isSigned(keys, [`${parsed.time.text}.`, check.body], parsed.signatures)) return mismatch
  // The time is checked last, so that this cause always means a wrong clock or a replay and never a forgery.
  return isInWindow(parsed.time.atMs, check) ? verified : outside
}

function parseTimedHeader(header: string) {
  if (header.length > signatureHeaderCharsMax) return undefined
  const times: string[] = []
  const v1: string[] = []
  for (const pair of header.split(',')) {
    const [name, value, more] = pair.trim().split('=')
    if (name === undefined || value === undefined || more !== undefined) return undefined
    if (name === 't') times.push(value)
    if (name === 'v1') v1.push(value)
  }
  const time = times.length === 1 ? parseSignedTime(times[0] ?? '') : undefined
  if (time === undefined || v1.length > signaturesMax) return undefined
  const signatures = v1.map(decodeHexDigest).filter((each) => each !== undefined)
  return { time, signatures, v1Count: v1.length }
}

/**
 * Checks a header of space-separated `v1,<base64>`, where each value is the HMAC-SHA256 of `<id>.<time>.<body>`, by Standard Webhooks
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md, read 2026-11). Skips other versions.
 */
export function verifyStandardHeaders(
  headers: { readonly id: string; readonly time: string; readonly signature: string },
  check: TimedCheck,
  keys: HmacKeys,
): Verification {
  if (headers.signature === '') return missing
  const time = parseSignedTime(headers.time)
  const tokens = headers.signature.length > signatureHeaderCharsMax ? [] : headers.signature.split(' ')
  const wellFormed = tokens.length > 0 && tokens.every((token) => /^[^,]+,[^,]+$/.test(token))
  if (headers.id === '' || time === undefined || !wellFormed) return malformed
  const v1 = tokens.filter((token) => token.startsWith('v1,'))
  if (v1.length === 0) return unknown
  const signatures = v1
    .map((token) => decodeBase64Digest(token.slice('v1,'.length)))
    .filter((each) => each !== undefined)
  if (signatures.length === 0 || v1.length > signaturesMax) return malformed
  if (!isSigned(keys, [`${headers.id}.${time.text}.`, check.body], signatures)) return mismatch
  return isInWindow(time.atMs, check) ? verified : outside
}

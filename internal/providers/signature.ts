import { timingSafeEqual } from 'node:crypto'
import type { Verification } from './provider.ts'

/**
 * Active keys of a provider as keyed HMAC objects. For a 1 KB body, an HMAC takes 1.3 µs with a copy of such an object and 2.3 µs with a
 * new object (Bun 1.4.5, 2026-11).
 */
export type HmacKeys = readonly Bun.CryptoHasher[]

const verified: Verification = { kind: 'verified' }
const mismatch: Verification = { kind: 'refused', cause: 'signature_mismatch' }
const missing: Verification = { kind: 'refused', cause: 'signature_missing' }
const malformed: Verification = { kind: 'refused', cause: 'signature_malformed' }
const unknown: Verification = { kind: 'refused', cause: 'scheme_unknown' }
const outside: Verification = { kind: 'refused', cause: 'timestamp_outside_window' }

/** Results of `verify`. */
export const verdicts = { verified, mismatch, missing, malformed, unknown, outside } as const

/** Hash of an HMAC. */
export type HmacHash = 'sha1' | 'sha256' | 'sha384' | 'sha512'

/** Creates HMAC keys; text is used as its UTF-8 bytes. Skips empty secrets, with which anyone could sign. */
export function hmacKeys(secrets: readonly (string | Uint8Array)[], hash: HmacHash = 'sha256'): HmacKeys {
  return secrets
    .filter((secret) => secret.length > 0)
    .map((secret) => new Bun.CryptoHasher(hash, Buffer.from(secret)))
}

/**
 * Returns whether a signature is the HMAC of the concatenated parts under one of the keys. Constant time: compares each signature
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

/** Returns whether a signed time is within the allowed distance of the clock, in both directions. */
export function isInWindow(atMs: number, nowMs: number, ageMsMax: number): boolean {
  return Math.abs(nowMs - atMs) <= ageMsMax
}

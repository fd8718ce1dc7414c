import { createPublicKey, type KeyObject, X509Certificate } from 'node:crypto'
import { isStrong } from './chain.ts'
import type { ParsedKeys, Validity } from './store.ts'

/** Public key, or the secret of a JWT, with its id in a key set. */
export interface VerificationKey {
  readonly key: KeyObject
  readonly id: string | undefined
  readonly algorithm?: string | undefined
}

/** A JSON Web Key Set, or a signing certificate of Amazon SNS. */
export type KeySource = 'jwks' | 'sns'

/** Fetched keys. `text` is the fetched text, from which a worker parses the keys again, because it cannot receive key objects. */
export interface PublishedKeys extends Validity {
  readonly source: KeySource
  readonly text: string
  readonly keys: readonly VerificationKey[]
}

export interface KeyLocation {
  readonly kind: 'located'
  readonly source: KeySource
  readonly url: string
  /** Id of the key in a key set, as the call states it. */
  readonly keyId?: string | undefined
}

/** Maximum number of keys in a key set. Vendors publish up to a dozen. */
const keySetMax = 32

/** Parses the fetched text of a source. Never throws. */
export function parsePublishedKeys(source: KeySource, text: string): ParsedKeys<PublishedKeys> {
  return source === 'jwks' ? parseKeySet(text) : parseSnsCertificate(text)
}

/** Returns whether the keys may contain the key that a call names. A key without an id may be any key. */
export function hasKey({ keys }: PublishedKeys, { keyId }: KeyLocation): boolean {
  return keyId === undefined || keys.some(({ id }) => id === undefined || id === keyId)
}

function parseKeySet(text: string): ParsedKeys<PublishedKeys> {
  const keys = jsonWebKeys(text)
  if (keys.length === 0) return { kind: 'unreadable' }
  const validity = { validFromMs: 0, validToMs: Number.MAX_SAFE_INTEGER }
  return { kind: 'trusted', keys: { source: 'jwks', text, keys, ...validity } }
}

/** Reads a JSON Web Key (RFC 7517) or a set of them. Skips keys that are unreadable or not for signatures. Never throws. */
export function jsonWebKeys(text: string): VerificationKey[] {
  const parsed = parseJson(text)
  const set: unknown =
    typeof parsed === 'object' && parsed !== null && 'keys' in parsed ? parsed.keys : [parsed]
  const list: unknown[] = Array.isArray(set) ? set.slice(0, keySetMax) : []
  return list.flatMap((jwk) => {
    if (typeof jwk !== 'object' || jwk === null) return []
    const textOf = (name: string): string | undefined => {
      const value: unknown = Reflect.get(jwk, name)
      return typeof value === 'string' ? value : undefined
    }
    const use = textOf('use')
    if (use !== undefined && use !== 'sig') return []
    try {
      const key = createPublicKey({ key: { ...jwk }, format: 'jwk' })
      return [{ key, id: textOf('kid'), algorithm: textOf('alg') }]
    } catch {
      return []
    }
  })
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Matches `sns.amazonaws.com` and `sns-signing.me-south-1.amazonaws.com`, for example. */
const snsSubject = /^CN=sns([.-][a-z0-9.-]+)?\.amazonaws\.com(\.cn)?$/m

/** Parses a certificate of Amazon SNS, which has no chain: it is trusted because of the TLS connection, as in the vendor's validators. */
function parseSnsCertificate(text: string): ParsedKeys<PublishedKeys> {
  try {
    const certificate = new X509Certificate(text)
    const { publicKey, subject, validFrom, validTo } = certificate
    if (publicKey.asymmetricKeyType !== 'rsa' || !isStrong(certificate))
      return { kind: 'refused', cause: 'certificate_weak' }
    if (!snsSubject.test(subject)) return { kind: 'refused', cause: 'certificate_subject_mismatch' }
    const validity = { validFromMs: Date.parse(validFrom), validToMs: Date.parse(validTo) }
    return {
      kind: 'trusted',
      keys: { source: 'sns', text, keys: [{ key: publicKey, id: undefined }], ...validity },
    }
  } catch {
    return { kind: 'unreadable' }
  }
}

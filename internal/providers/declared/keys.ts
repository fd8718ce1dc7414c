import { createPublicKey, createSecretKey, type KeyObject, verify } from 'node:crypto'
import { isJsonObject } from '#internal/base/index.ts'
import { jsonWebKeys, type PublishedKeys, type VerificationKey } from '../vendor-keys/published-keys.ts'

import type { Algorithm, Scheme } from './schema.ts'
import { decodeText, type HmacHash, type HmacKeys, hmacKeys, sha256 } from './signature.ts'

/** Secret that names the tenant as a customer of the vendor, such as the audience of a token. It is not a key. */
export interface Identity {
  readonly text: string
  /** Members of a secret that is a JSON object. */
  readonly members: ReadonlyMap<string, string>
}

/** Prepared keys of a scheme, made once per change of the secrets. */
export type SchemeKeys =
  | { readonly kind: 'hmac'; readonly keys: HmacKeys }
  | { readonly kind: 'objects'; readonly keys: readonly VerificationKey[] }
  /** SHA-256 of each secret, so that a comparison does not reveal the length. */
  | { readonly kind: 'digests'; readonly digests: readonly Uint8Array[] }
  /** The vendor publishes the keys. It must have signed for one of the identities. */
  | { readonly kind: 'published'; readonly identities: readonly Identity[] }

/** Maximum number of keys of a scheme, because each key costs a pass over the signed text. */
const keyObjectsMax = 8
const rsaBitsMin = 2048

const hmacHashes: Partial<Record<Algorithm, HmacHash>> = {
  'hmac-sha1': 'sha1',
  'hmac-sha256': 'sha256',
  'hmac-sha384': 'sha384',
  'hmac-sha512': 'sha512',
}

export function hmacHashOf(algorithm: Algorithm): HmacHash | undefined {
  return hmacHashes[algorithm]
}

export const hashBytes: Record<HmacHash, number> = { sha1: 20, sha256: 32, sha384: 48, sha512: 64 }

/** Returns whether a JWT scheme uses a shared secret. No scheme mixes shared secrets and public keys (algorithm confusion). */
export function isSecretJwt(scheme: Scheme): boolean {
  return scheme.jwtAlgorithms?.every((name) => name.startsWith('HS')) ?? false
}

/** Returns whether the vendor publishes the keys, so that the tenant's secrets are no keys. */
export function hasPublishedKeys({ algorithm, key }: Scheme): boolean {
  return algorithm === 'aws-sns' || key?.jwksUrl !== undefined
}

export function hasPublicKeys(scheme: Scheme): boolean {
  if (scheme.algorithm === 'jwt') return !isSecretJwt(scheme)
  return hmacHashOf(scheme.algorithm) === undefined && !['token', 'basic'].includes(scheme.algorithm)
}

/** Skips secrets that are not a key of the declared kind. Without a key, no call is verified. */
export function compileKeys(scheme: Scheme): (secrets: readonly string[]) => SchemeKeys {
  const hash = hmacHashOf(scheme.algorithm)
  if (hasPublishedKeys(scheme))
    return (secrets) => ({ kind: 'published', identities: secrets.map(identityOf) })
  const derive = (secrets: readonly string[]) =>
    secrets.flatMap((secret) => keyBytes(secret, scheme.key ?? {}))
  if (hash !== undefined) return (secrets) => ({ kind: 'hmac', keys: hmacKeys(derive(secrets), hash) })
  if (scheme.algorithm === 'token' || scheme.algorithm === 'basic') {
    return (secrets) => ({ kind: 'digests', digests: derive(secrets).map(sha256) })
  }
  if (isSecretJwt(scheme)) {
    return (secrets) => ({
      kind: 'objects',
      keys: derive(secrets).map((bytes) => ({ key: createSecretKey(Buffer.from(bytes)), id: undefined })),
    })
  }
  return (secrets) => ({
    kind: 'objects',
    keys: secrets
      .flatMap((secret) => publicKeys(secret, scheme))
      .filter(({ key }) => fits(key, scheme))
      .slice(0, keyObjectsMax),
  })
}

/** Maximum number of members of a secret that is a JSON object. */
const membersMax = 16

function identityOf(text: string): Identity {
  try {
    const value: unknown = JSON.parse(text)
    const members = isJsonObject(value) ? Object.entries(value).slice(0, membersMax) : []
    return {
      text,
      members: new Map(
        members.flatMap(([name, member]) => (typeof member === 'string' ? [[name, member] as const] : [])),
      ),
    }
  } catch {
    return { text, members: new Map() }
  }
}

export function publishedKeys(
  published: PublishedKeys | undefined,
  scheme: Scheme,
  { keyId, algorithm }: { readonly keyId: string | undefined; readonly algorithm: string },
): readonly VerificationKey[] {
  return (published?.keys ?? [])
    .filter((each) => keyId === undefined || each.id === undefined || each.id === keyId)
    .filter((each) => each.algorithm === undefined || each.algorithm === algorithm)
    .filter(({ key }) => fits(key, scheme))
    .slice(0, keyObjectsMax)
}

/** Skips an empty key, with which anyone could sign. */
export function keyBytes(
  secret: string,
  { prefix = '', decode, bytesMin = 1, orText = false }: NonNullable<Scheme['key']>,
): (string | Uint8Array)[] {
  const isPrefixed = prefix !== '' && secret.startsWith(prefix)
  const rest = isPrefixed ? secret.slice(prefix.length) : secret
  if (decode === undefined) return Buffer.byteLength(rest) < bytesMin ? [] : [rest]
  const decoded = decodeText(rest, decode)
  // Does not use a decoded secret that is too short: the key would be easy to guess.
  const meant = decoded !== undefined && decoded.length >= bytesMin ? [decoded] : []
  return orText && !isPrefixed && secret !== '' ? [...meant, secret] : meant
}

/** DER prefixes of a SubjectPublicKeyInfo for Ed25519, P-256 and P-384, by the length of the raw key that follows. */
const rawKeyHeads: Readonly<Record<number, string>> = {
  32: '302a300506032b6570032100',
  65: '3059301306072a8648ce3d020106082a8648ce3d030107034200',
  97: '3076301006072a8648ce3d020106052b81040022036200',
}

function publicKeys(secret: string, { key = {} }: Scheme): VerificationKey[] {
  try {
    const { format, decode, prefix = '' } = key
    const rest = prefix !== '' && secret.startsWith(prefix) ? secret.slice(prefix.length) : secret
    if (format === 'jwk') return jsonWebKeys(rest)
    if (format === 'pem') return [{ key: createPublicKey(rest), id: undefined }]
    const bytes = decode === undefined ? undefined : decodeText(rest, decode)
    if (bytes === undefined) return []
    const head = format === 'raw' ? rawKeyHeads[bytes.length] : ''
    if (head === undefined) return []
    const der = Buffer.concat([Buffer.from(head, 'hex'), bytes])
    return [{ key: createPublicKey({ key: der, format: 'der', type: 'spki' }), id: undefined }]
  } catch {
    return []
  }
}

/** Checks type and size for the scheme's algorithms. */
function fits(key: KeyObject, scheme: Scheme): boolean {
  const names: readonly string[] =
    scheme.algorithm === 'jwt' ? (scheme.jwtAlgorithms ?? []) : [scheme.algorithm]
  return names.some((name) => fitsAlgorithm(key, name))
}

/** Public-key algorithms by their names in declarations and in JWTs. */
const publicAlgorithms: Readonly<
  Record<
    string,
    { readonly type: string; readonly hash: string | null; readonly curve?: string; readonly pss?: true }
  >
> = {
  ed25519: { type: 'ed25519', hash: null },
  EdDSA: { type: 'ed25519', hash: null },
  'ecdsa-p256-sha256': { type: 'ec', hash: 'sha256', curve: 'prime256v1' },
  ES256: { type: 'ec', hash: 'sha256', curve: 'prime256v1' },
  'ecdsa-p384-sha384': { type: 'ec', hash: 'sha384', curve: 'secp384r1' },
  ES384: { type: 'ec', hash: 'sha384', curve: 'secp384r1' },
  'rsa-pkcs1-sha256': { type: 'rsa', hash: 'sha256' },
  RS256: { type: 'rsa', hash: 'sha256' },
  RS384: { type: 'rsa', hash: 'sha384' },
  'rsa-pkcs1-sha512': { type: 'rsa', hash: 'sha512' },
  RS512: { type: 'rsa', hash: 'sha512' },
  'rsa-pss-sha256': { type: 'rsa', hash: 'sha256', pss: true },
  PS256: { type: 'rsa', hash: 'sha256', pss: true },
  PS384: { type: 'rsa', hash: 'sha384', pss: true },
  PS512: { type: 'rsa', hash: 'sha512', pss: true },
}

function fitsAlgorithm(key: KeyObject, name: string): boolean {
  const wanted = publicAlgorithms[name]
  const details = key.asymmetricKeyDetails
  if (wanted === undefined || key.asymmetricKeyType !== wanted.type) return false
  if (wanted.type === 'rsa') return (details?.modulusLength ?? 0) >= rsaBitsMin
  return wanted.curve === undefined || details?.namedCurve === wanted.curve
}

const pssPadding = { padding: 6, saltLength: -1 } as const

/** Never throws. @param algorithm name in declarations or in JWTs */
export function isSignedBy(
  key: KeyObject,
  algorithm: string,
  content: Uint8Array,
  signature: Uint8Array,
  ecdsaForm: 'der' | 'p1363',
): boolean {
  const known = publicAlgorithms[algorithm]
  if (known === undefined || !fitsAlgorithm(key, algorithm)) return false
  const dsaEncoding = ecdsaForm === 'der' ? 'der' : 'ieee-p1363'
  try {
    return verify(known.hash, content, { key, dsaEncoding, ...(known.pss && pssPadding) }, signature)
  } catch {
    return false
  }
}

import { createHmac, timingSafeEqual } from 'node:crypto'
import { isJsonObject, type JsonObject } from '#internal/base/index.ts'
import { type Refused, refused, type Verification } from '../provider.ts'
import type { KeyLocation, VerificationKey } from '../vendor-keys/published-keys.ts'
import { type CallView, compilePlace, type HeaderTable, memberAt } from './call.ts'
import { type CompiledContent, equalsContent } from './content.ts'
import { type Identity, isSignedBy, publishedKeys, type SchemeKeys } from './keys.ts'
import type { Scheme } from './schema.ts'
import { decodeText, isInWindow, verdicts } from './signature.ts'

const tokenCharsMax = 8192
/** Accepted difference of clocks for `exp` and `nbf`. */
const leewayMs = 60_000

interface Token {
  readonly algorithm: string
  readonly keyId: string | undefined
  readonly claims: JsonObject
  readonly signed: string
  readonly signature: Uint8Array
}

export function textsOf({ equals, anyOf = [] }: NonNullable<Scheme['requires']>[number]): readonly string[] {
  return equals === undefined ? anyOf : [equals]
}

/** Locates the key of a token. Refuses a token that no key can verify, so that nothing is fetched for it. */
export function compileJwtLocate(
  { signature: { prefix = '' }, jwtAlgorithms = [] }: Scheme,
  url: string,
): (view: CallView, keys: SchemeKeys, value: string) => KeyLocation | Refused {
  const accepted: readonly string[] = jwtAlgorithms
  return (view, _keys, value) => {
    const token = readToken(view, value, prefix)
    if (token === undefined) return refused('signature_malformed')
    if (!accepted.includes(token.algorithm)) return refused('scheme_unknown')
    return { kind: 'located', source: 'jwks', url, keyId: token.keyId }
  }
}

/**
 * Checks a JSON Web Token (RFC 7519). The algorithm that the token names must be declared and fit the key. `exp` and `nbf` are checked if
 * present. If a tolerance is declared, `iat` must be present and within it. Otherwise a token of a published key must have `exp`.
 */
export function compileJwt(
  scheme: Scheme,
  headers: HeaderTable,
  contentOf: (template: string) => CompiledContent,
): (view: CallView, keys: SchemeKeys, value: string) => Verification {
  const {
    signature: { prefix = '' },
    toleranceSeconds,
  } = scheme
  const accepted: readonly string[] = scheme.jwtAlgorithms ?? []
  const requires = (scheme.requires ?? []).map((each) => ({
    claim: each.claim,
    read: compilePlace(each, headers),
    contents: textsOf(each).map(contentOf),
  }))
  const isMet = (view: CallView, { claims }: Token) =>
    requires.every(({ claim, read, contents }) => {
      const reading = claim === undefined ? read(view) : undefined
      const values =
        claim === undefined ? [reading?.kind === 'value' ? reading.value : ''] : claimTexts(claims, claim)
      return values.some(
        (text) => text !== '' && contents.some((content) => equalsContent(text, content, view)),
      )
    })
  /** Returns whether all requirements hold for one of the identities. */
  const isMetForAny = (view: CallView, token: Token, identities: readonly Identity[]) =>
    identities.some((identity) => {
      view.identity = identity
      return isMet(view, token)
    })
  return (view, keys, value) => {
    const token = readToken(view, value, prefix)
    if (token === undefined) return verdicts.malformed
    view.trace?.({ kind: 'joined', content: [token.signed] })
    if (!accepted.includes(token.algorithm)) return verdicts.unknown
    const isPublished = keys.kind === 'published'
    const own = isPublished
      ? publishedKeys(view.call.published, scheme, token)
      : keys.kind === 'objects'
        ? keys.keys
        : []
    if (!isSignedToken(view, token, own)) return verdicts.mismatch
    const isForTenant = isPublished ? isMetForAny(view, token, keys.identities) : isMet(view, token)
    if (!isForTenant) return verdicts.mismatch
    const needsExpiry = isPublished && toleranceSeconds === undefined
    if (needsExpiry && memberAt(token.claims, 'exp') === undefined) return verdicts.outside
    return isInTime(token.claims, view.call.nowMs, toleranceSeconds) ? verdicts.verified : verdicts.outside
  }
}

function readToken(view: CallView, value: string, prefix: string): Token | undefined {
  if (value.length > tokenCharsMax || !value.startsWith(prefix)) return undefined
  view.meter?.(value.length)
  return parseToken(value.slice(prefix.length))
}

function parseToken(text: string): Token | undefined {
  const parts = text.split('.')
  const [head = '', payload = '', encoded = ''] = parts
  const signature = decodeText(encoded, 'base64url')
  const header = jsonPart(head)
  const claims = jsonPart(payload)
  if (parts.length !== 3 || signature === undefined || header === undefined || claims === undefined)
    return undefined
  const algorithm = memberAt(header, 'alg')
  const keyId = memberAt(header, 'kid')
  // Refuses critical extensions, which are not understood (RFC 7515 section 4.1.11).
  if (typeof algorithm !== 'string' || memberAt(header, 'crit') !== undefined) return undefined
  return {
    algorithm,
    keyId: typeof keyId === 'string' ? keyId : undefined,
    claims,
    signed: `${head}.${payload}`,
    signature,
  }
}

function jsonPart(text: string): JsonObject | undefined {
  if (!/^[A-Za-z0-9_-]+$/.test(text)) return undefined
  try {
    const value: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    return isJsonObject(value) ? value : undefined
  } catch {
    return undefined
  }
}

function isSignedToken(view: CallView, token: Token, keys: readonly VerificationKey[]): boolean {
  const content = Buffer.from(token.signed)
  const { keyId, algorithm, signature } = token
  return keys.some(({ key, id }) => {
    if (keyId !== undefined && id !== undefined && keyId !== id) return false
    view.meter?.(content.length)
    if (key.type !== 'secret') return isSignedBy(key, algorithm, content, signature, 'p1363')
    const hash = `sha${algorithm.slice(2)}`
    const expected = algorithm.startsWith('HS') ? createHmac(hash, key).update(content).digest() : undefined
    return expected?.length === signature.length && timingSafeEqual(expected, signature)
  })
}

function claimTexts(claims: JsonObject, name: string): string[] {
  const value = memberAt(claims, name)
  const values: unknown[] = Array.isArray(value) ? value.slice(0, 16) : [value]
  return values.flatMap((each) =>
    typeof each === 'string' ? [each] : typeof each === 'boolean' ? [String(each)] : [],
  )
}

function isInTime(claims: JsonObject, nowMs: number, toleranceSeconds: number | undefined): boolean {
  const at = (name: string) => {
    const value = memberAt(claims, name)
    return value === undefined ? undefined : typeof value === 'number' ? value * 1000 : Number.NaN
  }
  const [expiresMs, validMs, issuedMs] = [at('exp'), at('nbf'), at('iat')]
  if (expiresMs !== undefined && !(nowMs < expiresMs + leewayMs)) return false
  if (validMs !== undefined && !(nowMs >= validMs - leewayMs)) return false
  return toleranceSeconds === undefined || isInWindow(issuedMs ?? Number.NaN, nowMs, toleranceSeconds * 1000)
}

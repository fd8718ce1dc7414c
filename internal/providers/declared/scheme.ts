import { type RefusalCause, type Refused, refused, type Verification } from '../provider.ts'
import type { KeyLocation, VerificationKey } from '../vendor-keys/published-keys.ts'
import { compileSns } from './aws-sns.ts'
import { type CallView, compilePlace, type HeaderReading, type HeaderTable, type Place } from './call.ts'
import {
  bytesOf,
  type CompiledContent,
  type Content,
  compileContent,
  equalsContent,
  isRefused,
} from './content.ts'
import { parseTime } from './event.ts'
import { compileJwt, compileJwtLocate, textsOf } from './jwt.ts'
import { compileKeys, hashBytes, hmacHashOf, isSignedBy, type SchemeKeys } from './keys.ts'
import { algorithms, type Scheme, type TimeUnit } from './schema.ts'
import {
  compileSignature,
  type Decode,
  decodeText,
  digestDecoder,
  equalBytes,
  isInWindow,
  isSigned,
  type ParsedSignature,
  sha256,
  signatureCharsMax,
  verdicts,
  withMore,
} from './signature.ts'

export interface CompiledScheme {
  /** Place of the signature, written as a text. Schemes that read the same place have equal texts. */
  readonly place: string
  readonly read: (view: CallView) => HeaderReading
  applies(view: CallView): boolean
  prepare(secrets: readonly string[]): SchemeKeys
  /** Finds the published keys of a call by the signature that `read` returned. Absent: the keys are the tenant's secrets. */
  readonly locate?: ((view: CallView, keys: SchemeKeys, value: string) => KeyLocation | Refused) | undefined
  /** Checks the signature that `read` returned. Never throws. */
  verify(view: CallView, keys: SchemeKeys, value: string): Verification
}

/** Maximum number of public-key signatures of a call. Each costs a pass over the signed text for each key. */
const publicSignaturesMax = 2

export interface SchemeContext {
  readonly headers: HeaderTable
  /** Names of headers with the event id; empty if no header has it. */
  readonly idNames: readonly string[]
}

/** @throws for an unknown algorithm, stored by a later version. The call then fails and is retried, instead of being refused as forged. */
export function compileScheme(scheme: Scheme, context: SchemeContext): CompiledScheme {
  const { signature, when, algorithm } = scheme
  if (!algorithms.includes(algorithm)) throw new Error(`this version has no algorithm ${algorithm}`)
  const condition = when && compilePlace(when, context.headers)
  return {
    place: placeText(signature),
    read: compilePlace(signature, context.headers),
    applies: (view) => condition === undefined || condition(view).kind === 'value',
    prepare: compileKeys(scheme),
    locate: compileLocate(scheme),
    verify: compileVerify(scheme, context),
  }
}

function compileLocate(scheme: Scheme): CompiledScheme['locate'] {
  if (scheme.algorithm === 'aws-sns') return compileSns(scheme).locate
  const { jwksUrl } = scheme.key ?? {}
  return jwksUrl === undefined ? undefined : compileJwtLocate(scheme, jwksUrl)
}

export function placeText({ header, query, json }: Place): string {
  return header === undefined ? (query === undefined ? `json:${json}` : `query:${query}`) : `header:${header}`
}

function compileVerify(scheme: Scheme, context: SchemeContext): CompiledScheme['verify'] {
  const timeHeader = scheme.timestamp?.header
  const contentOf = (template: string) =>
    compileContent(template, context.headers, {
      idNames: context.idNames,
      listedNames: timeHeader === undefined ? [] : (context.headers[timeHeader]?.names ?? []),
    })
  if (scheme.algorithm === 'jwt') return compileJwt(scheme, context.headers, contentOf)
  if (scheme.algorithm === 'aws-sns') return compileSns(scheme).verify
  const check =
    scheme.algorithm === 'token' || scheme.algorithm === 'basic'
      ? secretCheck(scheme)
      : signatureCheck(scheme, context, contentOf(scheme.signs ?? ''))
  const requires = (scheme.requires ?? []).map((each) => ({
    read: compilePlace(each, context.headers),
    contents: textsOf(each).map(contentOf),
  }))
  if (requires.length === 0) return check
  return (view, keys, value) => {
    const verification = check(view, keys, value)
    if (verification.kind === 'refused') return verification
    const isMet = requires.every(({ read, contents }) => {
      const reading = read(view)
      return (
        reading.kind === 'value' && contents.some((content) => equalsContent(reading.value, content, view))
      )
    })
    return isMet ? verification : verdicts.mismatch
  }
}

function secretCheck({ algorithm, signature: { prefix = '' } }: Scheme): CompiledScheme['verify'] {
  return (view, keys, value) => {
    if (value.length > signatureCharsMax) return verdicts.malformed
    view.meter?.(value.length)
    const given = algorithm === 'basic' ? basicCredentials(value) : tokenOf(value, prefix)
    if (given === undefined) return verdicts.malformed
    if (keys.kind !== 'digests') return verdicts.mismatch
    const digest = sha256(given)
    let matches = 0
    for (const each of keys.digests) matches += equalBytes(digest, each) ? 1 : 0
    return matches > 0 ? verdicts.verified : verdicts.mismatch
  }
}

function tokenOf(value: string, prefix: string): string | undefined {
  return value.startsWith(prefix) ? value.slice(prefix.length) : undefined
}

function basicCredentials(value: string): Uint8Array | undefined {
  const encoded = /^basic +([A-Za-z0-9+/=]+)$/i.exec(value)?.[1]
  return encoded === undefined ? undefined : decodeText(encoded, 'base64')
}

function signatureCheck(
  scheme: Scheme,
  { headers }: SchemeContext,
  content: CompiledContent,
): CompiledScheme['verify'] {
  const { timestamp, toleranceSeconds, encoding = 'hex' } = scheme
  const hash = hmacHashOf(scheme.algorithm)
  const decode: Decode =
    hash === undefined ? (text) => decodeText(text, encoding) : digestDecoder(encoding, hashBytes[hash])
  const parse = compileSignature(scheme, decode)
  const more = (scheme.signature.moreHeaders ?? []).map((header) => compilePlace({ header }, headers))
  const timeOf = timestamp && compileTime(timestamp, headers)
  const isSignedCall = hash === undefined ? publicCheck(scheme) : hmacCheck
  return (view, keys, value) => {
    const values = content.gather(view)
    if (isRefused(values)) return values
    view.meter?.(value.length)
    let parsed = parse(value)
    if (more.length > 0)
      parsed = withMore(
        parsed,
        more.map((read) => read(view)),
        parse,
      )
    if (parsed.kind === 'refused') return parsed
    view.trace?.({ kind: 'parsed', texts: parsed.texts, decodedCount: parsed.signatures.length })
    const time = timeOf?.(view, parsed)
    if (typeof time === 'string') return refused(time)
    if (parsed.texts.length === 0) return verdicts.unknown
    if (parsed.signatures.length === 0) return verdicts.malformed
    const joined = content.join(view, values, time?.text ?? '')
    if (isRefused(joined)) return joined
    view.trace?.({ kind: 'joined', content: joined })
    if (!isSignedCall(view, joined, parsed.signatures, keys)) return verdicts.mismatch
    if (time === undefined) return verdicts.verified
    // The time is checked last, so that its cause always means a wrong clock or a replay and never a forgery.
    const ageMsMax = toleranceSeconds === undefined ? view.call.signatureAgeMsMax : toleranceSeconds * 1000
    return isInWindow(time.atMs, view.call.nowMs, ageMsMax) ? verdicts.verified : verdicts.outside
  }
}

function hmacCheck(
  view: CallView,
  content: Content,
  signatures: readonly Uint8Array[],
  keys: SchemeKeys,
): boolean {
  if (keys.kind !== 'hmac') return false
  if (view.meter) for (const part of content) view.meter(part.length * keys.keys.length)
  return isSigned(keys.keys, content, signatures)
}

function publicCheck({ algorithm, ecdsaForm = 'der' }: Scheme): typeof hmacCheck {
  return (view, content, signatures, keys) => {
    if (keys.kind !== 'objects') return false
    const bytes = bytesOf(content)
    return signatures.slice(0, publicSignaturesMax).some((signature) =>
      keys.keys.some(({ key }: VerificationKey) => {
        view.meter?.(bytes.length)
        return isSignedBy(key, algorithm, bytes, signature, ecdsaForm)
      }),
    )
  }
}

/** Keeps the text of the signed time, since the signature covers it. */
function compileTime(
  timestamp: NonNullable<Scheme['timestamp']>,
  headers: HeaderTable,
): (view: CallView, parsed: Extract<ParsedSignature, { kind: 'signatures' }>) => ReturnType<typeof timed> {
  const { unit, pair, listFirst } = timestamp
  if (pair !== undefined || listFirst) return (view, { time }) => timed(view, time ?? '', unit)
  const read = compilePlace(timestamp, headers)
  return (view) => {
    const reading = read(view)
    if (reading.kind === 'conflict') return 'headers_conflict'
    return timed(view, reading.kind === 'value' ? reading.value : '', unit)
  }
}

function timed(
  view: CallView,
  text: string,
  unit: TimeUnit,
): { readonly text: string; readonly atMs: number } | RefusalCause {
  const atMs = parseTime(text, unit)
  view.trace?.({ kind: 'timed', text, atMs })
  return atMs === undefined ? 'signature_malformed' : { text, atMs }
}

import type { HandshakeAnswer, ProviderCall, ProviderEvent, RefusalCause } from '../provider.ts'
import type { VerificationStep } from './call.ts'
import { compileDeclaration } from './compile.ts'
import { bytesOf } from './content.ts'
import type { SchemeKeys } from './keys.ts'
import { signedUrlVariable } from './notes.ts'
import { keyReason, malformedReason, otherUnit, undecodableReason } from './reasons.ts'
import type { Algorithm, Declaration, TimeUnit } from './schema.ts'
import { withPublished } from './vectors.ts'

/** Steps and outcome of the verification of a captured call. As secret as the signatures and computed HMACs that it contains. */
export interface CallTrace {
  /** Scheme that the signature of the call selects; undefined if no scheme applies. */
  readonly scheme?: {
    readonly position: number
    readonly algorithm: Algorithm
    /** Text of the signature's header, query parameter or member. */
    readonly value: string
    readonly keyCount: number
    /** Explains for each secret how it became a key, or why it is not one. States its form and length only. */
    readonly keyReasons: readonly string[]
    /** Reason why some or all signatures could not be decoded. */
    readonly malformed?: string
    /** `{url}` or `{path}`, if the scheme signs it and the call has no URL. */
    readonly emptyVariable?: string
  }
  readonly signatures?: { readonly texts: readonly string[]; readonly decodedCount: number }
  readonly time?: {
    readonly text: string
    /** The time; undefined if the text is not a time in the declared unit. */
    readonly atMs: number | undefined
    /** Difference from the clock, positive for the past. */
    readonly ageMs: number | undefined
    readonly ageMsMax: number
    /** Another unit in which the time would be near the clock, if it is not in the declared unit. */
    readonly otherUnit?: TimeUnit
  }
  /** `text` has at most `signedCharsMax` characters. */
  readonly signed?: { readonly bytes: number; readonly text: string; readonly isCut: boolean }
  /** HMAC of the signed text by each key, in the encoding of the scheme; empty for other algorithms. */
  readonly computed: readonly string[]
  /** `verified_only`: the call was verified, but makes no event; `cause` says why. */
  readonly outcome:
    | { readonly kind: 'refused'; readonly cause: RefusalCause }
    | { readonly kind: 'answered'; readonly answer: HandshakeAnswer }
    /** Address of the vendor's keys, which were not given. */
    | { readonly kind: 'keys_needed'; readonly url: string }
    /** Address at which intake would confirm a subscription for this verified call. */
    | { readonly kind: 'confirms'; readonly url: string }
    | { readonly kind: 'event'; readonly event: ProviderEvent }
    | { readonly kind: 'verified_only'; readonly cause: RefusalCause }
}

/** `isLiteral`: the texts come from the call or are computed from it, in contrast to words of Latchkey. */
interface TraceStep {
  readonly title: string
  readonly texts: readonly string[]
  readonly isLiteral?: true
}

/** Returns the steps in words, without the outcome. The texts of the call can have control characters. Pure. */
export function traceSteps({ scheme, signatures, time, signed, computed }: CallTrace): readonly TraceStep[] {
  const steps: (TraceStep | undefined)[] = [
    scheme
      ? { title: 'scheme', texts: [`${scheme.algorithm} (number ${scheme.position + 1})`] }
      : { title: 'scheme', texts: ['no signature of a declared scheme'] },
    scheme && { title: 'signature value', texts: [scheme.value], isLiteral: true },
    scheme && { title: 'secret', texts: scheme.keyReasons },
    scheme?.emptyVariable === undefined
      ? undefined
      : { title: 'url', texts: [`the call has none: ${scheme.emptyVariable} is empty in the signed text`] },
    signatures && { title: 'received', texts: receivedOf(signatures.texts), isLiteral: true },
    scheme?.malformed === undefined ? undefined : { title: 'not decodable', texts: [scheme.malformed] },
    { title: 'computed', texts: computed, isLiteral: true },
    time && { title: 'signed time', texts: [timeText(time)] },
    time?.otherUnit && {
      title: 'unit',
      texts: [`with unit: ${time.otherUnit} the time would be near the call`],
    },
    signed && { title: 'signed text', texts: [signedText(signed)], isLiteral: true },
  ]
  return steps.filter((step) => step !== undefined).filter(({ texts }) => texts.length > 0)
}

function receivedOf(texts: readonly string[]): readonly string[] {
  return texts.length === 0 ? ['no signature of this scheme'] : texts
}

function timeText({ text, ageMs, ageMsMax }: NonNullable<CallTrace['time']>): string {
  if (ageMs === undefined) return `${text} is no time of the declared unit`
  return `${text}, ${Math.round(ageMs / 1_000)} s before the call, at most ${ageMsMax / 1_000} s`
}

function signedText({ bytes, text, isCut }: NonNullable<CallTrace['signed']>): string {
  return `${bytes} bytes: ${escapedText(text)}${isCut ? ' …' : ''}`
}

const signedCharsMax = 4096

/**
 * Runs a captured call by the code of intake and returns the result of each step. Pure.
 * @param secrets 1 to 5 secrets; for public keys, the keys
 * @param fetched key set or certificate of the vendor, for a declaration whose keys are fetched
 */
export function traceCall(
  declaration: Declaration,
  call: ProviderCall,
  secrets: readonly string[],
  fetched?: string,
): CallTrace {
  const steps: VerificationStep[] = []
  const provider = compileDeclaration(declaration, undefined, (step) => steps.push(step))
  const keys = provider.prepare(secrets)
  const answer = provider.handshakes?.answer(call, keys)
  if (answer?.kind === 'answer')
    return { ...describe(declaration, call, { keys, secrets }, steps), outcome: { kind: 'answered', answer } }
  const location = answer ? undefined : provider.locate?.(call, keys)
  if (location?.kind === 'located' && fetched === undefined)
    return {
      ...describe(declaration, call, { keys, secrets }, steps),
      outcome: { kind: 'keys_needed', url: location.url },
    }
  const keyed = location?.kind === 'located' ? withPublished(call, location, fetched ?? '') : call
  const verification = answer ?? (location?.kind === 'refused' ? location : provider.verify(keyed, keys))
  const facts = describe(declaration, call, { keys, secrets }, steps)
  if (verification.kind === 'refused') return { ...facts, outcome: verification }
  const confirmationUrl = provider.confirmationUrl?.(call)
  if (confirmationUrl !== undefined) return { ...facts, outcome: { kind: 'confirms', url: confirmationUrl } }
  const event = provider.normalize(call)
  return event.kind === 'event'
    ? { ...facts, outcome: { kind: 'event', event } }
    : { ...facts, outcome: { kind: 'verified_only', cause: event.cause } }
}

function describe(
  { signature }: Declaration,
  call: ProviderCall,
  { keys, secrets }: { readonly keys: readonly SchemeKeys[]; readonly secrets: readonly string[] },
  steps: readonly VerificationStep[],
): Omit<CallTrace, 'outcome'> {
  const chosen = lastOf(steps, 'chosen')
  const scheme = signature.schemes[chosen?.position ?? -1]
  if (chosen === undefined || scheme === undefined) return { computed: [] }
  const own = keys[chosen.position]
  const parsed = lastOf(steps, 'parsed')
  const timed = lastOf(steps, 'timed')
  const joined = lastOf(steps, 'joined')
  const bytes = joined && bytesOf(joined.content)
  const { toleranceSeconds, encoding = 'hex', algorithm } = scheme
  const ageMsMax = toleranceSeconds === undefined ? call.signatureAgeMsMax : toleranceSeconds * 1000
  const malformed = parsed
    ? parsed.texts.map((text) => undecodableReason(scheme, text)).find((reason) => reason !== undefined)
    : malformedReason(scheme, chosen.value)
  const emptyVariable = call.request?.url ? undefined : signedUrlVariable(scheme)
  const isFar = timed?.atMs === undefined || Math.abs(call.nowMs - timed.atMs) > ageMsMax
  const { unit } = scheme.timestamp ?? {}
  const other = timed && unit && isFar ? otherUnit(timed.text, unit, call.nowMs, ageMsMax) : undefined
  return {
    scheme: {
      position: chosen.position,
      algorithm,
      value: chosen.value,
      keyCount: keyCountOf(own),
      keyReasons: secrets.map((secret) => keyReason(scheme, secret)),
      ...(malformed !== undefined && { malformed }),
      ...(emptyVariable !== undefined && { emptyVariable }),
    },
    ...(parsed && { signatures: { texts: parsed.texts, decodedCount: parsed.decodedCount } }),
    ...(timed && {
      time: {
        text: timed.text,
        atMs: timed.atMs,
        ageMsMax,
        ageMs: timed.atMs === undefined ? undefined : call.nowMs - timed.atMs,
        ...(other !== undefined && { otherUnit: other }),
      },
    }),
    ...(bytes && { signed: shownText(bytes) }),
    computed:
      bytes && own?.kind === 'hmac' ? own.keys.map((key) => key.copy().update(bytes).digest(encoding)) : [],
  }
}

function lastOf<Kind extends VerificationStep['kind']>(
  steps: readonly VerificationStep[],
  kind: Kind,
): Extract<VerificationStep, { kind: Kind }> | undefined {
  return steps.findLast((step): step is Extract<VerificationStep, { kind: Kind }> => step.kind === kind)
}

function keyCountOf(keys: SchemeKeys | undefined): number {
  if (keys === undefined) return 0
  if (keys.kind === 'published') return keys.identities.length
  return keys.kind === 'digests' ? keys.digests.length : keys.keys.length
}

function shownText(bytes: Uint8Array): NonNullable<CallTrace['signed']> {
  const text = Buffer.from(bytes).toString()
  return { bytes: bytes.length, text: text.slice(0, signedCharsMax), isCut: text.length > signedCharsMax }
}

/** Escapes control and format characters (a newline as `\\n`) and doubles backslashes, so that a newline and a backslash with n differ. */
export function escapedText(text: string): string {
  const named: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
  return text.replaceAll(
    /[\\\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu,
    (char) => named[char] ?? `\\u{${char.codePointAt(0)?.toString(16)}}`,
  )
}

import { parseTimestamp } from '#internal/base/index.ts'
import type { Problem } from '#internal/tenants/index.ts'
import type { HandshakeAnswer, ProviderCall, ProviderEvent, Refused } from '../provider.ts'
import { type KeyLocation, parsePublishedKeys } from '../vendor-keys/published-keys.ts'
import { compileDeclaration } from './compile.ts'
import type { Declaration, Vector } from './schema.ts'
import { tamperedCalls } from './tamper.ts'

/** Default of LATCHKEY_SIGNATURE_MAX_AGE_SECONDS in ms, for vectors and captured calls. */
export const defaultSignatureAgeMsMax: number = 300_000

/**
 * Runs the vectors of a valid declaration, and the calls that `tamperedCalls` derives from those that lead to an event or to the answer of
 * a signed handshake. Returns a problem for each wrong result. Pure.
 */
export function runVectors(declaration: Declaration): Problem[] {
  const provider = compileDeclaration(declaration)
  return (declaration.vectors ?? []).flatMap((vector, index) => {
    const path = `vectors[${index}]`
    const call = callOf(vector)
    const outcome = outcomeOf(provider, call, vector)
    const wrong = mismatchOf(vector, outcome)
    if (wrong !== undefined) return [{ path: `${path}.expect`, message: `(${vector.name}) ${wrong}` }]
    if (outcome.kind === 'refused') return []
    const { secrets, fetched } = vector
    return tamperedCalls(declaration, { call, secrets, fetched, isEvent: outcome.kind === 'event' })
      .filter((tampered) => outcomeOf(provider, tampered.call, tampered).kind !== 'refused')
      .map(({ change }) => ({
        path,
        message: `(${vector.name}) is accepted with ${change}: the declaration must refuse it`,
      }))
  })
}

export function callOf({ at, method = 'POST', url = '', headers, body, bodyBase64 }: Vector): ProviderCall {
  return {
    request: { method, url },
    headers: new Headers(headers),
    body: bodyBase64 === undefined ? Buffer.from(body ?? '') : Buffer.from(bodyBase64, 'base64'),
    settings: {},
    nowMs: parseTimestamp(at) ?? 0,
    signatureAgeMsMax: defaultSignatureAgeMsMax,
  }
}

/** Handles a call as intake does. Without the key set or certificate in the vector, the call has no keys. */
export function outcomeOf(
  provider: ReturnType<typeof compileDeclaration>,
  call: ProviderCall,
  vector: {
    readonly secrets: readonly string[]
    readonly fetched?: Vector['fetched'] | undefined
  },
): ProviderEvent | Refused | HandshakeAnswer | { readonly kind: 'confirms'; readonly url: string } {
  const keys = provider.prepare(vector.secrets)
  const answer = provider.handshakes?.answer(call, keys)
  if (answer !== undefined) return answer
  const location = provider.locate?.(call, keys)
  if (location?.kind === 'refused') return location
  const served = vector.fetched?.find(({ url }) => url === location?.url)
  const keyed = location && served ? withPublished(call, location, served.text) : call
  const verification = provider.verify(keyed, keys)
  if (verification.kind === 'refused') return verification
  const url = provider.confirmationUrl?.(keyed)
  return url === undefined ? provider.normalize(keyed) : { kind: 'confirms', url }
}

/** Adds the keys in a text to the call. If the text contains no keys, the call is unchanged. */
export function withPublished(call: ProviderCall, { source }: KeyLocation, text: string): ProviderCall {
  const parsed = parsePublishedKeys(source, text)
  return parsed.kind === 'trusted' ? { ...call, published: parsed.keys } : call
}

function mismatchOf({ expect }: Vector, outcome: ReturnType<typeof outcomeOf>): string | undefined {
  if (outcome.kind === 'refused') {
    return outcome.cause === expect.refused
      ? undefined
      : `does not hold: the call is refused as ${outcome.cause}`
  }
  if (outcome.kind === 'answer') {
    return outcome.body === expect.answer ? undefined : `does not hold: the answer is ${outcome.body}`
  }
  if (outcome.kind === 'confirms') {
    return outcome.url === expect.confirms ? undefined : `does not hold: the call confirms by ${outcome.url}`
  }
  const real: Vector['expect'] = {
    id: outcome.sourceEventId,
    rawType: outcome.rawType,
    type: outcome.type,
    ...(outcome.occurredAtMs !== undefined && { occurredAt: new Date(outcome.occurredAtMs).toISOString() }),
  }
  if (expect.type === undefined) return 'does not hold: the call makes an event'
  const names = ['id', 'rawType', 'type'] as const
  const different = names.find((name) => expect[name] !== undefined && expect[name] !== real[name])
  if (different !== undefined) return `does not hold: ${different} is ${real[different]}`
  const isTime = expect.occurredAt === undefined || parseTimestamp(expect.occurredAt) === outcome.occurredAtMs
  return isTime ? undefined : `does not hold: occurredAt is ${real.occurredAt ?? 'absent'}`
}

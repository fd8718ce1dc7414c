import { parseTimestamp } from '#internal/base/index.ts'
import type { Problem } from '#internal/tenants/index.ts'
import type { HandshakeAnswer, Normalization, ProviderCall } from '../provider.ts'
import { compileDeclaration, type DeclaredProvider } from './compile.ts'
import type { Declaration, Vector } from './schema.ts'
import { tamperedCalls } from './tamper.ts'

/** Result of a call: an event, a refusal or the answer to a handshake. */
type Outcome = Normalization | HandshakeAnswer

/** Default of LATCHKEY_SIGNATURE_MAX_AGE_SECONDS in ms, with which vectors and captured calls are run. */
export const defaultSignatureAgeMsMax: number = 300_000

/**
 * Runs the vectors of a valid declaration, and for each that leads to an event or to the answer of a signed handshake the calls that
 * `tamperedCalls` derives from it, all of which must be refused. Returns a problem for each wrong result. Pure.
 */
export function runVectors(declaration: Declaration): Problem[] {
  const provider = compileDeclaration(declaration)
  return (declaration.vectors ?? []).flatMap((vector, index) => {
    const path = `vectors[${index}]`
    const call = callOf(vector)
    const outcome = outcomeOf(provider, call, vector.secrets)
    const wrong = mismatchOf(vector, outcome)
    if (wrong !== undefined) return [{ path: `${path}.expect`, message: wrong }]
    if (outcome.kind === 'refused') return []
    return tamperedCalls(declaration, { call, secrets: vector.secrets })
      .filter((tampered) => outcomeOf(provider, tampered.call, tampered.secrets).kind !== 'refused')
      .map(({ change }) => ({ path, message: `is accepted with ${change}: the declaration must refuse it` }))
  })
}

/** Makes the call of a vector. */
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

/** Handles a call as intake does: a handshake is answered, any other call is verified and normalized. */
export function outcomeOf(
  provider: DeclaredProvider,
  call: ProviderCall,
  secrets: readonly string[],
): Outcome {
  const keys = provider.prepare(secrets)
  const answer = provider.handshakes?.answer(call, keys)
  if (answer !== undefined) return answer
  const verification = provider.verify(call, keys)
  return verification.kind === 'refused' ? verification : provider.normalize(call)
}

/** Returns the difference between the expected and the real outcome; undefined if there is none. */
function mismatchOf({ expect }: Vector, outcome: Outcome): string | undefined {
  if (outcome.kind === 'refused') {
    return outcome.cause === expect.refused
      ? undefined
      : `does not hold: the call is refused as ${outcome.cause}`
  }
  if (outcome.kind === 'answer') {
    return outcome.body === expect.answer ? undefined : `does not hold: the answer is ${outcome.body}`
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

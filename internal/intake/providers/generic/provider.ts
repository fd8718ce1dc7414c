import {
  type HeaderReading,
  makeEvent,
  memberAt,
  readEventBody,
  readEventId,
  readHeader,
  readHeaderEventId,
  readIsoTime,
  refused,
} from '../../normalize.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import {
  type HmacKeys,
  hmacKeys,
  standardHmacKeys,
  verifyStandardHeaders,
  verifyTimedHeader,
} from '../../signature.ts'
import { genericType } from './types.ts'

/** Keys for both schemes, which derive different bytes from one secret. */
export interface GenericKeys {
  readonly service: HmacKeys
  readonly standard: HmacKeys
}

const signatureName = 'x-service-signature'
const standardSignatureName = 'webhook-signature'
const idNames = ['x-service-event-id', 'webhook-id']

/** Adapter of the generic provider: Latchkey's own format, or Standard Webhooks. */
export const generic: Provider<GenericKeys> = {
  name: 'generic',
  bodyBytesMax: 1024 * 1024,
  secretHeaders: [signatureName, standardSignatureName],
  prepare: (secrets) => ({ service: hmacKeys(secrets), standard: standardHmacKeys(secrets) }),
  verify,
  normalize,
}

function verify(call: ProviderCall, keys: GenericKeys): Verification {
  const service = call.headers.get(signatureName) ?? ''
  const standard = call.headers.get(standardSignatureName) ?? ''
  // With both schemes in one call it is ambiguous which of them signs `webhook-id`.
  if (service !== '' && standard !== '') return refused('headers_conflict')
  if (readHeader(call.headers, idNames).kind === 'conflict') return refused('headers_conflict')
  if (standard === '') return verifyTimedHeader(service, call, keys.service)
  const id = call.headers.get('webhook-id') ?? ''
  // `webhook-id` is signed; the unsigned `x-service-event-id` must not replace it.
  if (id === '') return refused('event_id_missing')
  const time = call.headers.get('webhook-timestamp') ?? ''
  return verifyStandardHeaders({ id, time, signature: standard }, call, keys.standard)
}

function normalize({ headers, body: bytes }: ProviderCall): Normalization {
  const idHeader = readHeader(headers, idNames)
  if (idHeader.kind === 'conflict') return refused('headers_conflict')
  const body = readEventBody(bytes)
  if (body.kind === 'refused') return body
  const idInBody = memberAt(body.value, 'id')
  if (contradicts(headers, idHeader, idInBody)) return refused('headers_conflict')
  return makeEvent({
    id: idHeader.kind === 'value' ? readHeaderEventId(idHeader.value) : readEventId(idInBody),
    rawType: memberAt(body.value, 'type'),
    typeOf: genericType,
    occurredAtMs: readIsoTime(memberAt(body.value, 'occurredAt')),
    payload: body.text,
  })
}

/**
 * Returns whether an unsigned header names another event than the signed body. Prevents replay: an unsigned id header would turn one
 * captured call into many events. In Standard Webhooks the header is signed, so the body's id may differ. Text and numbers are ids;
 * an empty text and other values are not.
 */
function contradicts(headers: CallHeaders, id: HeaderReading, idInBody: unknown): boolean {
  const isSignedHeader = (headers.get(standardSignatureName) ?? '') !== ''
  if (isSignedHeader || id.kind !== 'value') return false
  const isId = typeof idInBody === 'number' || (typeof idInBody === 'string' && idInBody !== '')
  return isId && String(idInBody) !== id.value
}

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
  eventIdSchema,
  header,
  lowerNames,
  timedSignatureSchema,
  timedSignatureText,
} from '../../provider-header.ts'
import {
  type HmacKeys,
  hmacKeys,
  standardHmacKeys,
  verifyStandardHeaders,
  verifyTimedHeader,
} from '../../signature.ts'
import { jsonCall, timedSignature } from '../../simulated-call.ts'
import { genericType } from './types.ts'

/** Keys for both signature schemes, which derive different bytes from one secret. */
export interface GenericKeys {
  readonly service: HmacKeys
  readonly standard: HmacKeys
}

const signatureName = 'X-Service-Signature'
const standardSignatureName = 'webhook-signature'
const either = { names: ['X-Service-Event-Id', 'webhook-id'] }
const headers = {
  signature: header(
    [signatureName],
    `Required, unless the call is signed as Standard Webhooks. ${timedSignatureText} The key is the whole secret.`,
    timedSignatureSchema,
  ),
  id: header(
    ['X-Service-Event-Id'],
    'Event id, where the body has none. Not covered by `X-Service-Signature`.',
    eventIdSchema,
  ),
  standardSignature: header(
    [standardSignatureName],
    'Standard Webhooks: `v1,<base64>[ v1,…]`, each is an HMAC-SHA256 of `<webhook-id>.<webhook-timestamp>.<body>` under the decoded secret, and one must match. Not together with `X-Service-Signature`.',
    { type: 'string', maxLength: 4096, pattern: '^[^, ]+,[^, ]+( [^, ]+,[^, ]+)*$' },
  ),
  standardId: header(['webhook-id'], 'Event id. Required with `webhook-signature`.', eventIdSchema),
  standardTime: header(['webhook-timestamp'], 'Unix time in seconds. Required with `webhook-signature`.', {
    type: 'string',
    pattern: '^[0-9]{1,12}$',
  }),
}

/** Adapter of the generic provider: Latchkey's own format, or Standard Webhooks. */
export const generic: Provider<GenericKeys> = {
  name: 'generic',
  bodyBytesMax: 1024 * 1024,
  headers,
  secretHeaders: lowerNames(headers.signature, headers.standardSignature),
  prepare: (secrets) => ({ service: hmacKeys(secrets), standard: standardHmacKeys(secrets) }),
  verify,
  normalize,
  write: ({ id, rawType: type, payload, occurredAtMs }) =>
    jsonCall({ id, type, occurredAt: new Date(occurredAtMs).toISOString(), data: payload }),
  sign: ({ body, headers: unsigned }, secret, atMs) => ({
    ...unsigned,
    [signatureName]: timedSignature(body, secret, atMs),
  }),
}

function verify(call: ProviderCall, keys: GenericKeys): Verification {
  const service = call.headers.get(signatureName) ?? ''
  const standard = call.headers.get(standardSignatureName) ?? ''
  // In a call with both schemes it is ambiguous which signature covers `webhook-id`.
  if (service !== '' && standard !== '') return refused('headers_conflict')
  if (readHeader(call.headers, either).kind === 'conflict') return refused('headers_conflict')
  if (standard === '') return verifyTimedHeader(service, call, keys.service)
  const id = call.headers.get('webhook-id') ?? ''
  // `webhook-id` is signed, so the unsigned `x-service-event-id` must not replace it.
  if (id === '') return refused('event_id_missing')
  const time = call.headers.get('webhook-timestamp') ?? ''
  return verifyStandardHeaders({ id, time, signature: standard }, call, keys.standard)
}

function normalize({ headers: given, body: bytes }: ProviderCall): Normalization {
  const idHeader = readHeader(given, either)
  if (idHeader.kind === 'conflict') return refused('headers_conflict')
  const body = readEventBody(bytes)
  if (body.kind === 'refused') return body
  const idInBody = memberAt(body.value, 'id')
  if (contradicts(given, idHeader, idInBody)) return refused('headers_conflict')
  return makeEvent({
    id: idHeader.kind === 'value' ? readHeaderEventId(idHeader.value) : readEventId(idInBody),
    rawType: memberAt(body.value, 'type'),
    typeOf: genericType,
    occurredAtMs: readIsoTime(memberAt(body.value, 'occurredAt')),
    payload: body.text,
  })
}

/**
 * Returns whether an unsigned header names a different event than the signed body. This prevents a replay: with an unsigned id header, one
 * captured call could become many events. In Standard Webhooks the header is signed, so the body's id can differ. Non-empty text and
 * numbers count as ids.
 */
function contradicts(given: CallHeaders, id: HeaderReading, idInBody: unknown): boolean {
  const isSignedHeader = (given.get(standardSignatureName) ?? '') !== ''
  if (isSignedHeader || id.kind !== 'value') return false
  const isId = typeof idInBody === 'number' || (typeof idInBody === 'string' && idInBody !== '')
  return isId && String(idInBody) !== id.value
}

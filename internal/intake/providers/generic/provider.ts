import { type HeaderReading, headerText, readHeader } from '../../call-header.ts'
import { memberAt, readEventBody } from '../../event-body.ts'
import { type EventId, judgeEventId, judgeHeaderEventId } from '../../event-id.ts'
import { readIsoTime } from '../../event-time.ts'
import { judgeTypes } from '../../event-type.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import {
  type HmacKeys,
  hmacKeys,
  standardHmacKeys,
  verifyStandardHeaders,
  verifyTimedHeader,
} from '../../signature.ts'
import { genericType } from './types.ts'

/** Keys for both schemes: they make different bytes of one secret. */
export interface GenericKeys {
  readonly service: HmacKeys
  readonly standard: HmacKeys
}

const signatureName = 'x-service-signature'
const standardSignatureName = 'webhook-signature'
const idNames = ['x-service-event-id', 'webhook-id']

/** The generic provider: our own format, or Standard Webhooks; see README.md in this folder. */
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
  // Two schemes in one call: which of them vouches for `webhook-id` would be anybody's guess.
  if (service !== '' && standard !== '') return { kind: 'refused', cause: 'headers_conflict' }
  if (readId(call.headers).kind === 'conflict') return { kind: 'refused', cause: 'headers_conflict' }
  if (standard === '') return verifyTimedHeader(service, call, keys.service)
  const id = call.headers.get('webhook-id') ?? ''
  // This id is part of what is signed; with none, `x-service-event-id` must not step in.
  if (id === '') return { kind: 'refused', cause: 'event_id_missing' }
  const time = call.headers.get('webhook-timestamp') ?? ''
  return verifyStandardHeaders({ id, time, signature: standard }, call, keys.standard)
}

function normalize(call: ProviderCall): Normalization {
  const id = readId(call.headers)
  if (id.kind === 'conflict') return { kind: 'refused', cause: 'headers_conflict' }
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  const idInBody = memberAt(body.value, 'id')
  if (contradicts(call.headers, id, idInBody)) return { kind: 'refused', cause: 'headers_conflict' }
  const eventId = judgeId(id, idInBody)
  if (eventId.kind === 'refused') return eventId
  const types = judgeTypes(memberAt(body.value, 'type'), genericType)
  if (types.kind === 'refused') return types
  return {
    kind: 'event',
    eventId: eventId.id,
    rawType: types.rawType,
    type: types.type,
    occurredAtMs: readIsoTime(memberAt(body.value, 'occurredAt')),
    payload: body.text,
  }
}

function readId(headers: CallHeaders): HeaderReading {
  return readHeader(headers, idNames)
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

function judgeId(header: Exclude<HeaderReading, { kind: 'conflict' }>, inBody: unknown): EventId {
  return header.kind === 'value' ? judgeHeaderEventId(headerText(header)) : judgeEventId(inBody)
}

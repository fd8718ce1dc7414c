import {
  headerText,
  makeEvent,
  memberAt,
  readEventBody,
  readEventId,
  readHeader,
  readIsoTime,
  readUnixSeconds,
  refused,
  unlistedType,
} from '../../normalize.ts'
import type {
  Normalization,
  Provider,
  ProviderCall,
  SimulatedEvent,
  UnsignedCall,
  Verification,
} from '../../provider.ts'
import { header, lowerNames, timedSignatureSchema, timedSignatureText } from '../../provider-header.ts'
import { type HmacKeys, hmacKeys, verifyTimedHeader } from '../../signature.ts'
import { jsonCall, timedSignature } from '../../simulated-call.ts'
import { cardTypes } from './types.ts'

const headers = {
  signature: header(
    ['Card-Signature', 'Stripe-Signature'],
    `Required. ${timedSignatureText} The key is the whole secret, \`whsec_\` included.`,
    timedSignatureSchema,
  ),
}

/** Adapter of the card provider; its README describes the calls. */
export const card: Provider<HmacKeys> = {
  name: 'card',
  bodyBytesMax: 1024 * 1024,
  headers,
  secretHeaders: lowerNames(headers.signature),
  // The vendor signs with the whole `whsec_…` text and not with the decoded bytes.
  prepare: hmacKeys,
  verify,
  normalize,
  write,
  sign,
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const signature = readHeader(call.headers, headers.signature)
  if (signature.kind === 'conflict') return refused('headers_conflict')
  return verifyTimedHeader(headerText(signature), call, keys)
}

/** Normal and thin (`v2.core.event`) events have id, type and time in the same members. Only the format of the time differs. */
function normalize(call: ProviderCall): Normalization {
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  const created = memberAt(body.value, 'created')
  return makeEvent({
    id: readEventId(memberAt(body.value, 'id')),
    rawType: memberAt(body.value, 'type'),
    typeOf: (raw) => cardTypes.typeOf(raw, body.value) ?? unlistedType('card', raw),
    occurredAtMs: readUnixSeconds(created) ?? readIsoTime(created),
    payload: body.text,
  })
}

/** The time of a thin event is text. */
function write({ id, payload, occurredAtMs }: SimulatedEvent): UnsignedCall {
  const isThin = payload['object'] === 'v2.core.event'
  const created = isThin ? new Date(occurredAtMs).toISOString() : Math.floor(occurredAtMs / 1000)
  return jsonCall({ ...payload, id, created })
}

function sign(
  { body, headers: unsigned }: UnsignedCall,
  secret: string,
  atMs: number,
): Readonly<Record<string, string>> {
  return { ...unsigned, 'card-signature': timedSignature(body, secret, atMs) }
}

import { createHmac } from 'node:crypto'
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
import type { Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { header, lowerNames, timedSignatureSchema, timedSignatureText } from '../../provider-header.ts'
import { type HmacKeys, hmacKeys, verifyTimedHeader } from '../../signature.ts'
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

/** Input for signing a simulated call. */
export interface CardTransmission {
  readonly body: Uint8Array
  /** One of the tenant's active signing secrets. */
  readonly secret: string
  /** Time to sign, in milliseconds since the epoch. */
  readonly atMs: number
}

/** Signs a simulated call as the vendor does and returns all its headers. */
export function signCard({ body, secret, atMs }: CardTransmission): Readonly<Record<string, string>> {
  const time = Math.floor(atMs / 1000)
  const hex = createHmac('sha256', secret).update(`${time}.`).update(body).digest('hex')
  return { 'content-type': 'application/json', 'card-signature': `t=${time},v1=${hex}` }
}

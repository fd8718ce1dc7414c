import {
  decodeUtf8,
  type EventBody,
  headerText,
  makeEvent,
  readEventBody,
  readEventText,
  readHeader,
  readHeaderEventId,
  refused,
  textAt,
  unlistedType,
} from '../../normalize.ts'
import type { Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { eventIdSchema, header, lowerNames } from '../../provider-header.ts'
import { decodeHexDigest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { hmacOf, jsonCall } from '../../simulated-call.ts'
import { codehostTypes } from './types.ts'

const headers = {
  signature: header(
    ['X-Codehost-Signature-256', 'X-Hub-Signature-256'],
    'Required. `sha256=<hex>`: HMAC-SHA256 of the body as received, form or JSON.',
    { type: 'string', pattern: '^sha256=[0-9a-fA-F]{64}$' },
  ),
  id: header(
    ['X-Codehost-Delivery', 'X-GitHub-Delivery'],
    'Required. Event id, by which duplicates are detected.',
    eventIdSchema,
  ),
  event: header(['X-Codehost-Event', 'X-GitHub-Event'], 'Raw type, such as `push` or `pull_request`.'),
}
/** The vendor sends this older signature in addition to the SHA-256 signature. A call with only the older one is refused. */
const sha1Signature = { names: ['X-Codehost-Signature', 'X-Hub-Signature'] }
const scheme = 'sha256='

/** Adapter of the codehost provider; its README describes the calls. */
export const codehost: Provider<HmacKeys> = {
  name: 'codehost',
  bodyBytesMax: 25 * 1024 * 1024,
  headers,
  secretHeaders: lowerNames(headers.signature, sha1Signature),
  prepare: hmacKeys,
  verify,
  normalize,
  write: ({ id, rawType, payload }) =>
    jsonCall(payload, { 'x-codehost-delivery': id, 'x-codehost-event': rawType }),
  sign: ({ body, headers: unsigned }, secret) => ({
    ...unsigned,
    'x-codehost-signature-256': `${scheme}${hmacOf([body], secret).toString('hex')}`,
  }),
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const reading = readHeader(call.headers, headers.signature)
  if (reading.kind === 'conflict') return refused('headers_conflict')
  if (reading.kind === 'absent') {
    const hasSha1 = readHeader(call.headers, sha1Signature).kind !== 'absent'
    return hasSha1 ? verdicts.unknown : verdicts.missing
  }
  if (!reading.value.startsWith(scheme))
    return reading.value.includes('=') ? verdicts.unknown : verdicts.malformed
  const signature = decodeHexDigest(reading.value.slice(scheme.length))
  if (signature === undefined) return verdicts.malformed
  return isSigned(keys, [call.body], [signature]) ? verdicts.verified : verdicts.mismatch
}

function normalize(call: ProviderCall): Normalization {
  const idHeader = readHeader(call.headers, headers.id)
  const event = readHeader(call.headers, headers.event)
  if (idHeader.kind === 'conflict' || event.kind === 'conflict') return refused('headers_conflict')
  const id = readHeaderEventId(headerText(idHeader))
  if (id.kind === 'refused') return id
  const body = readBody(call)
  if (body.kind === 'refused') return body
  const name = headerText(event)
  const action = textAt(body.value, 'action') ?? ''
  return makeEvent({
    id,
    rawType: name,
    typeOf: (raw) =>
      codehostTypes.typeOf(raw, body.value) ??
      unlistedType('codehost', name === '' || action === '' ? raw : `${raw}.${action}`),
    // This vendor's events have no common member that contains the time.
    occurredAtMs: undefined,
    payload: body.text,
  })
}

function readBody({ body, headers: given }: ProviderCall): EventBody {
  const isForm = /^application\/x-www-form-urlencoded *(;|$)/i.test(given.get('content-type') ?? '')
  if (!isForm) return readEventBody(body)
  const payload = payloadField(decodeUtf8(body) ?? '')
  return payload === undefined ? refused('body_not_json') : readEventText(payload)
}

/** Returns the decoded form field `payload`; undefined if it is missing, repeated or undecodable. */
function payloadField(form: string): string | undefined {
  const fields = form.matchAll(/(?:^|&)payload=([^&]*)/g)
  const value = fields.next().value?.[1]
  if (value === undefined || fields.next().done !== true) return undefined
  try {
    return decodeURIComponent(value.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

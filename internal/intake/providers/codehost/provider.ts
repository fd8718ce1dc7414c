import { headerText, readHeader } from '../../call-header.ts'
import { decodeUtf8, type EventBody, readEventBody, readEventText, textAt } from '../../event-body.ts'
import { judgeHeaderEventId } from '../../event-id.ts'
import { judgeTypes } from '../../event-type.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { decodeHexDigest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { codehostType } from './types.ts'

const signatureNames = ['x-codehost-signature-256', 'x-hub-signature-256']
/** The vendor's older SHA-1 signature comes beside the other; alone it is refused. */
const sha1SignatureNames = ['x-codehost-signature', 'x-hub-signature']
const idNames = ['x-codehost-delivery', 'x-github-delivery']
const eventNames = ['x-codehost-event', 'x-github-event']
const scheme = 'sha256='

/** The codehost provider; see README.md in this folder for what it sends. */
export const codehost: Provider<HmacKeys> = {
  name: 'codehost',
  bodyBytesMax: 25 * 1024 * 1024,
  secretHeaders: [...signatureNames, ...sha1SignatureNames],
  prepare: hmacKeys,
  verify,
  normalize,
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const header = readHeader(call.headers, signatureNames)
  if (header.kind === 'conflict') return { kind: 'refused', cause: 'headers_conflict' }
  if (header.kind === 'absent') {
    return readHeader(call.headers, sha1SignatureNames).kind === 'absent'
      ? verdicts.missing
      : verdicts.unknown
  }
  if (!header.value.startsWith(scheme))
    return header.value.includes('=') ? verdicts.unknown : verdicts.malformed
  const signature = decodeHexDigest(header.value.slice(scheme.length))
  if (signature === undefined) return verdicts.malformed
  return isSigned(keys, [call.body], [signature]) ? verdicts.verified : verdicts.mismatch
}

function normalize(call: ProviderCall): Normalization {
  const id = readHeader(call.headers, idNames)
  const event = readHeader(call.headers, eventNames)
  if (id.kind === 'conflict' || event.kind === 'conflict')
    return { kind: 'refused', cause: 'headers_conflict' }
  const eventId = judgeHeaderEventId(headerText(id))
  if (eventId.kind === 'refused') return eventId
  const body = readBody(call)
  if (body.kind === 'refused') return body
  const rawType = rawTypeOf(headerText(event), textAt(body.value, 'action'))
  const types = judgeTypes(rawType, (raw) => codehostType(raw, body.value))
  if (types.kind === 'refused') return types
  return {
    kind: 'event',
    eventId: eventId.id,
    rawType: types.rawType,
    type: types.type,
    // No event of this vendor says when it occurred in one and the same place.
    occurredAtMs: undefined,
    payload: body.text,
  }
}

function rawTypeOf(event: string, action: string | undefined): string {
  return event === '' || action === undefined || action === '' ? event : `${event}.${action}`
}

function readBody({ body, headers }: ProviderCall): EventBody {
  if (!isForm(headers)) return readEventBody(body)
  const payload = payloadField(decodeUtf8(body) ?? '')
  return payload === undefined ? { kind: 'refused', cause: 'body_not_json' } : readEventText(payload)
}

function isForm(headers: CallHeaders): boolean {
  return /^application\/x-www-form-urlencoded *(;|$)/i.test(headers.get('content-type') ?? '')
}

/** The decoded value of the one field `payload`; undefined if there is none, or several, or it is not decodable. */
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

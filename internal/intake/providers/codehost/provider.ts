import {
  decodeUtf8,
  type EventBody,
  headerText,
  makeEvent,
  normalizeType,
  readEventBody,
  readEventText,
  readHeader,
  readHeaderEventId,
  refused,
  textAt,
} from '../../normalize.ts'
import type { Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { decodeHexDigest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { codehostTypes } from './types.ts'

const signatureNames = ['x-codehost-signature-256', 'x-hub-signature-256']
/** The vendor's older SHA-1 signature accompanies the other; alone it is refused. */
const sha1SignatureNames = ['x-codehost-signature', 'x-hub-signature']
const idNames = ['x-codehost-delivery', 'x-github-delivery']
const eventNames = ['x-codehost-event', 'x-github-event']
const scheme = 'sha256='

/** Adapter of the codehost provider; its README describes the calls. */
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
  if (header.kind === 'conflict') return refused('headers_conflict')
  if (header.kind === 'absent') {
    const hasSha1 = readHeader(call.headers, sha1SignatureNames).kind !== 'absent'
    return hasSha1 ? verdicts.unknown : verdicts.missing
  }
  if (!header.value.startsWith(scheme))
    return header.value.includes('=') ? verdicts.unknown : verdicts.malformed
  const signature = decodeHexDigest(header.value.slice(scheme.length))
  if (signature === undefined) return verdicts.malformed
  return isSigned(keys, [call.body], [signature]) ? verdicts.verified : verdicts.mismatch
}

function normalize(call: ProviderCall): Normalization {
  const idHeader = readHeader(call.headers, idNames)
  const event = readHeader(call.headers, eventNames)
  if (idHeader.kind === 'conflict' || event.kind === 'conflict') return refused('headers_conflict')
  const id = readHeaderEventId(headerText(idHeader))
  if (id.kind === 'refused') return id
  const body = readBody(call)
  if (body.kind === 'refused') return body
  const name = headerText(event)
  const action = textAt(body.value, 'action') ?? ''
  return makeEvent({
    id,
    rawType: name === '' || action === '' ? name : `${name}.${action}`,
    typeOf: (raw) => normalizeType('codehost', codehostTypes, raw, body.value),
    // No member states the time in all events of this vendor.
    occurredAtMs: undefined,
    payload: body.text,
  })
}

function readBody({ body, headers }: ProviderCall): EventBody {
  const isForm = /^application\/x-www-form-urlencoded *(;|$)/i.test(headers.get('content-type') ?? '')
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

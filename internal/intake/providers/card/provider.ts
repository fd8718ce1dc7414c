import { headerText, readHeader } from '../../call-header.ts'
import { memberAt, readEventBody } from '../../event-body.ts'
import { judgeEventId } from '../../event-id.ts'
import { readIsoTime, readUnixSeconds } from '../../event-time.ts'
import { judgeTypes } from '../../event-type.ts'
import type { Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { type HmacKeys, hmacKeys, verifyTimedHeader } from '../../signature.ts'
import { cardType } from './types.ts'

const signatureNames = ['card-signature', 'stripe-signature']

/** The card provider; see README.md in this folder for what it sends. */
export const card: Provider<HmacKeys> = {
  name: 'card',
  bodyBytesMax: 1024 * 1024,
  secretHeaders: signatureNames,
  // The whole `whsec_…` text is the key: this vendor does not decode it.
  prepare: hmacKeys,
  verify,
  normalize,
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const signature = readHeader(call.headers, signatureNames)
  if (signature.kind === 'conflict') return { kind: 'refused', cause: 'headers_conflict' }
  return verifyTimedHeader(headerText(signature), call, keys)
}

/** Events and the thin `v2.core.event` ones have id, type and time in the same places; the time's form differs. */
function normalize(call: ProviderCall): Normalization {
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  const eventId = judgeEventId(memberAt(body.value, 'id'))
  if (eventId.kind === 'refused') return eventId
  const types = judgeTypes(memberAt(body.value, 'type'), (raw) => cardType(raw, body.value))
  if (types.kind === 'refused') return types
  const created = memberAt(body.value, 'created')
  return {
    kind: 'event',
    eventId: eventId.id,
    rawType: types.rawType,
    type: types.type,
    occurredAtMs: readUnixSeconds(created) ?? readIsoTime(created),
    payload: body.text,
  }
}

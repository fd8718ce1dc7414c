import { type HeaderReading, headerText, readHeader } from '../../call-header.ts'
import { readEventBody } from '../../event-body.ts'
import { judgeHeaderEventId } from '../../event-id.ts'
import { readIsoTime } from '../../event-time.ts'
import { judgeTypes } from '../../event-type.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { decodeBase64Digest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { storefrontType } from './types.ts'

/** The neutral header, the vendor's, and the one of the vendor's newer Events. */
const twins = (name: string) => [`x-storefront-${name}`, `x-shopify-${name}`, `shopify-${name}`]

const signatureNames = twins('hmac-sha256')
const shopNames = twins('shop-domain')
const idNames = twins('webhook-id')
const topicNames = twins('topic')
const actionNames = twins('action')
const timeNames = twins('triggered-at')

/** The storefront provider; see README.md in this folder for what it sends. */
export const storefront: Provider<HmacKeys> = {
  name: 'storefront',
  bodyBytesMax: 1024 * 1024,
  secretHeaders: signatureNames,
  prepare: hmacKeys,
  verify,
  normalize,
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const header = readHeader(call.headers, signatureNames)
  if (header.kind === 'conflict') return { kind: 'refused', cause: 'headers_conflict' }
  if (header.kind === 'absent') return verdicts.missing
  const signature = decodeBase64Digest(header.value)
  if (signature === undefined) return verdicts.malformed
  if (!isSigned(keys, [call.body], [signature])) return verdicts.mismatch
  return isOwnShop(call) ? verdicts.verified : { kind: 'refused', cause: 'shop_mismatch' }
}

/** One app's secret signs for every shop that installed it, so that the shop has to be told apart by its name. */
function isOwnShop({ headers, settings }: ProviderCall): boolean {
  const own = settings.storefront?.shopDomain
  if (own === undefined) return true
  const shop = readHeader(headers, shopNames)
  return shop.kind === 'value' && shop.value.toLowerCase() === own
}

function normalize(call: ProviderCall): Normalization {
  const { headers } = call
  const id = readHeader(headers, idNames)
  const topic = readTopic(headers)
  if (id.kind === 'conflict' || topic.kind === 'conflict')
    return { kind: 'refused', cause: 'headers_conflict' }
  const eventId = judgeHeaderEventId(headerText(id))
  if (eventId.kind === 'refused') return eventId
  const body = readEventBody(call.body)
  if (body.kind === 'refused') return body
  const types = judgeTypes(headerText(topic), (raw) => storefrontType(raw, body.value))
  if (types.kind === 'refused') return types
  const triggeredAt = readHeader(headers, timeNames)
  return {
    kind: 'event',
    eventId: eventId.id,
    rawType: types.rawType,
    type: types.type,
    occurredAtMs: triggeredAt.kind === 'value' ? readIsoTime(triggeredAt.value) : undefined,
    payload: body.text,
  }
}

/** Webhooks say `orders/create` in one header; Events say `Product` and `update` in two. */
function readTopic(headers: CallHeaders): HeaderReading {
  const topic = readHeader(headers, topicNames)
  const action = readHeader(headers, actionNames)
  if (action.kind === 'conflict') return action
  if (topic.kind !== 'value' || action.kind !== 'value') return topic
  return { kind: 'value', value: `${topic.value}/${action.value}` }
}

import {
  type HeaderReading,
  headerText,
  makeEvent,
  normalizeType,
  readEventBody,
  readHeader,
  readHeaderEventId,
  readIsoTime,
  refused,
} from '../../normalize.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { decodeBase64Digest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { storefrontTypes } from './types.ts'

/** Names of a header: neutral, the vendor's, and that of the vendor's newer Events. */
const twins = (name: string) => [`x-storefront-${name}`, `x-shopify-${name}`, `shopify-${name}`]

const signatureNames = twins('hmac-sha256')
const shopNames = twins('shop-domain')
const idNames = twins('webhook-id')
const topicNames = twins('topic')
const actionNames = twins('action')
const timeNames = twins('triggered-at')

/** Adapter of the storefront provider; its README describes the calls. */
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
  if (header.kind === 'conflict') return refused('headers_conflict')
  if (header.kind === 'absent') return verdicts.missing
  const signature = decodeBase64Digest(header.value)
  if (signature === undefined) return verdicts.malformed
  if (!isSigned(keys, [call.body], [signature])) return verdicts.mismatch
  return isOwnShop(call) ? verdicts.verified : refused('shop_mismatch')
}

/** Checks the shop's name: one app's secret signs for every shop that installed it. */
function isOwnShop({ headers, settings }: ProviderCall): boolean {
  const own = settings.storefront?.shopDomain
  if (own === undefined) return true
  const shop = readHeader(headers, shopNames)
  return shop.kind === 'value' && shop.value.toLowerCase() === own
}

function normalize({ headers, body: bytes }: ProviderCall): Normalization {
  const idHeader = readHeader(headers, idNames)
  const topic = readTopic(headers)
  if (idHeader.kind === 'conflict' || topic.kind === 'conflict') return refused('headers_conflict')
  const id = readHeaderEventId(headerText(idHeader))
  if (id.kind === 'refused') return id
  const body = readEventBody(bytes)
  if (body.kind === 'refused') return body
  const triggeredAt = readHeader(headers, timeNames)
  return makeEvent({
    id,
    rawType: headerText(topic),
    typeOf: (raw) => normalizeType('storefront', storefrontTypes, raw, body.value),
    occurredAtMs: triggeredAt.kind === 'value' ? readIsoTime(triggeredAt.value) : undefined,
    payload: body.text,
  })
}

/** Reads `orders/create` from one header (webhooks), or `Product` and `update` from two (Events). */
function readTopic(headers: CallHeaders): HeaderReading {
  const topic = readHeader(headers, topicNames)
  const action = readHeader(headers, actionNames)
  if (action.kind === 'conflict') return action
  if (topic.kind !== 'value' || action.kind !== 'value') return topic
  return { kind: 'value', value: `${topic.value}/${action.value}` }
}

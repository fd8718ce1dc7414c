import {
  type HeaderReading,
  headerText,
  makeEvent,
  readEventBody,
  readHeader,
  readHeaderEventId,
  readIsoTime,
  refused,
  unlistedType,
} from '../../normalize.ts'
import type { CallHeaders, Normalization, Provider, ProviderCall, Verification } from '../../provider.ts'
import { eventIdSchema, header, lowerNames } from '../../provider-header.ts'
import { decodeBase64Digest, type HmacKeys, hmacKeys, isSigned, verdicts } from '../../signature.ts'
import { hmacOf, jsonCall } from '../../simulated-call.ts'
import { storefrontTypes } from './types.ts'

/** Names of a header: the neutral name, the vendor's name, and the name in the vendor's newer Events. */
const named = (name: string) => [`X-Storefront-${name}`, `X-Shopify-${name}`, `Shopify-${name}`]

const headers = {
  signature: header(
    named('Hmac-Sha256'),
    'Required. HMAC-SHA256 of the body under the whole secret, in base64.',
    { type: 'string', pattern: '^[A-Za-z0-9+/]{43}=$' },
  ),
  id: header(named('Webhook-Id'), 'Required. Event id, by which duplicates are detected.', eventIdSchema),
  topic: header(named('Topic'), 'Raw type, such as `orders/create`; with an `Action` header its first half.'),
  action: header(named('Action'), 'Second half of the raw type, in the vendor’s newer Events.'),
  shop: header(named('Shop-Domain'), 'Must equal the tenant’s configured shop, where one is set.'),
  time: header(named('Triggered-At'), 'Time of the event, RFC 3339. A malformed one is ignored.'),
}

/** Adapter of the storefront provider; its README describes the calls. */
export const storefront: Provider<HmacKeys> = {
  name: 'storefront',
  bodyBytesMax: 1024 * 1024,
  headers,
  secretHeaders: lowerNames(headers.signature),
  prepare: hmacKeys,
  verify,
  normalize,
  write: ({ id, rawType, payload, occurredAtMs }, { storefront: shop }) =>
    jsonCall(payload, {
      'x-storefront-webhook-id': id,
      'x-storefront-topic': rawType,
      'x-storefront-triggered-at': new Date(occurredAtMs).toISOString(),
      ...(shop && { 'x-storefront-shop-domain': shop.shopDomain }),
    }),
  sign: ({ body, headers: unsigned }, secret) => ({
    ...unsigned,
    'x-storefront-hmac-sha256': hmacOf([body], secret).toString('base64'),
  }),
}

function verify(call: ProviderCall, keys: HmacKeys): Verification {
  const reading = readHeader(call.headers, headers.signature)
  if (reading.kind === 'conflict') return refused('headers_conflict')
  if (reading.kind === 'absent') return verdicts.missing
  const signature = decodeBase64Digest(reading.value)
  if (signature === undefined) return verdicts.malformed
  if (!isSigned(keys, [call.body], [signature])) return verdicts.mismatch
  return isOwnShop(call) ? verdicts.verified : refused('shop_mismatch')
}

/** Checks the name of the shop, since one app's secret signs for every shop that has installed the app. */
function isOwnShop({ headers: given, settings }: ProviderCall): boolean {
  const own = settings.storefront?.shopDomain
  if (own === undefined) return true
  const shop = readHeader(given, headers.shop)
  return shop.kind === 'value' && shop.value.toLowerCase() === own
}

function normalize({ headers: given, body: bytes }: ProviderCall): Normalization {
  const idHeader = readHeader(given, headers.id)
  const topic = readTopic(given)
  if (idHeader.kind === 'conflict' || topic.kind === 'conflict') return refused('headers_conflict')
  const id = readHeaderEventId(headerText(idHeader))
  if (id.kind === 'refused') return id
  const body = readEventBody(bytes)
  if (body.kind === 'refused') return body
  const triggeredAt = readHeader(given, headers.time)
  return makeEvent({
    id,
    rawType: headerText(topic),
    typeOf: (raw) => storefrontTypes.typeOf(raw, body.value) ?? unlistedType('storefront', raw),
    occurredAtMs: triggeredAt.kind === 'value' ? readIsoTime(triggeredAt.value) : undefined,
    payload: body.text,
  })
}

/** Reads the topic: `orders/create` from one header (webhooks), or `Product` and `update` from two headers (Events). */
function readTopic(given: CallHeaders): HeaderReading {
  const topic = readHeader(given, headers.topic)
  const action = readHeader(given, headers.action)
  if (action.kind === 'conflict') return action
  if (topic.kind !== 'value' || action.kind !== 'value') return topic
  return { kind: 'value', value: `${topic.value}/${action.value}` }
}

import { type BuiltIn, builtIn, declaredTypes } from '../../declared/built-in.ts'
import { hmacOf, jsonCall } from '../../simulated-call.ts'
import { storefrontTypes } from './types.ts'

/** Names of a header: the neutral name, the vendor's name, and the name in the vendor's newer Events. */
const named = (name: string) => [`X-Storefront-${name}`, `X-Shopify-${name}`, `Shopify-${name}`]

/** Adapter of the storefront provider; its README describes the calls. */
export const storefront: BuiltIn = builtIn(
  {
    name: 'storefront',
    aliases: ['shopify'],
    body: { bytesMax: 1024 * 1024, json: {} },
    headers: {
      signature: {
        names: named('Hmac-Sha256'),
        description: 'Required. HMAC-SHA256 of the body under the whole secret, in base64.',
      },
      id: {
        names: named('Webhook-Id'),
        description: 'Required. Event id, by which duplicates are detected.',
      },
      topic: {
        names: named('Topic'),
        description: 'Raw type, such as `orders/create`; with an `Action` header its first half.',
      },
      action: {
        names: named('Action'),
        description: 'Second half of the raw type, in the vendor’s newer Events.',
      },
      shop: {
        names: named('Shop-Domain'),
        description: 'Must equal the tenant’s configured shop, where one is set.',
      },
      time: {
        names: named('Triggered-At'),
        description: 'Time of the event, RFC 3339. A malformed one is ignored.',
      },
    },
    signature: {
      schemes: [
        {
          algorithm: 'hmac-sha256',
          signature: { header: 'signature' },
          encoding: 'base64',
          signs: '{body}',
        },
      ],
    },
    // One app's secret signs for every shop that has installed the app.
    account: { header: 'shop', setting: 'storefront.shopDomain', ignoreCase: true },
    event: {
      id: [{ header: ['id'] }],
      type: {
        from: [{ header: 'topic' }],
        action: { header: 'action', separator: '/', joins: 'raw' },
      },
      occurredAt: [{ header: 'time', unit: 'iso' }],
    },
    types: declaredTypes(storefrontTypes),
  },
  {
    write: ({ id, rawType, payload, occurredAtMs }, { storefront: shop }) =>
      jsonCall(payload, {
        'x-storefront-webhook-id': id,
        'x-storefront-topic': rawType,
        'x-storefront-triggered-at': new Date(occurredAtMs).toISOString(),
        ...(shop && { 'x-storefront-shop-domain': shop.shopDomain }),
      }),
    sign: ({ body, headers }, secret) => ({
      ...headers,
      'x-storefront-hmac-sha256': hmacOf([body], secret).toString('base64'),
    }),
  },
)

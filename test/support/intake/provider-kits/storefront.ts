import { createHmac } from 'node:crypto'
import { storefront } from '#internal/providers/built-in/declarations.ts'
import type { ConformanceKit } from './kit.ts'

const twins = (name: string) => [`x-storefront-${name}`, `x-shopify-${name}`, `shopify-${name}`]

/** Conformance kits for `storefront`: they build calls in the vendor's format and sign them. */
export const kits: readonly ConformanceKit[] = [
  {
    title: 'storefront',
    provider: storefront,
    secrets: ['shpss_0a1b', 'shpss_2', 'hush', 'shpss_4', '5'],
    settings: { storefront: { shopDomain: 'acme.myshopify.com' } },
    compose: ({ eventId, type }) => ({
      body: Buffer.from(
        '{"id":820982911946154508,"email":"jon@example.com","total_price":"403.00","note":"Größe L \\ud83d\\udce6 ✓"}',
      ),
      headers: {
        'content-type': 'application/json',
        'x-storefront-topic': type,
        'x-storefront-shop-domain': 'acme.myshopify.com',
        ...(eventId === undefined ? {} : { 'x-storefront-webhook-id': eventId }),
      },
    }),
    sign: ({ body, headers }, secret) => ({
      ...headers,
      'x-storefront-hmac-sha256': createHmac('sha256', secret).update(body).digest('base64'),
    }),
    signatureHeader: 'x-storefront-hmac-sha256',
    idHeader: 'x-storefront-webhook-id',
    twins: ['hmac-sha256', 'webhook-id', 'topic', 'shop-domain'].map(twins),
    timed: false,
    hex: false,
    otherSchemes: [],
  },
]

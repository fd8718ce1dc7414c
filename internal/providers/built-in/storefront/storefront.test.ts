import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import '@shopify/shopify-api/adapters/web-api'
import { ApiVersion, LogSeverity, shopifyApi } from '@shopify/shopify-api'
import { kits } from '#test/support/intake/provider-kits/storefront.ts'
import type { ProviderCall } from '../../provider.ts'
import { storefront } from '../declarations.ts'

const secret = 'shpss_5c1b4e0d9a'
const shop = 'acme.myshopify.com'
const keys = storefront.prepare([secret])
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.json`, 'utf8')

function callOf(payload: string, headers: Record<string, string>, shopDomain?: string): ProviderCall {
  return {
    body: Buffer.from(payload),
    headers: new Headers(headers),
    settings: shopDomain === undefined ? {} : { storefront: { shopDomain } },
    nowMs: 1_794_300_000_000,
    signatureAgeMsMax: 300_000,
  }
}

function signed(payload: string, headers: Record<string, string> = {}): Record<string, string> {
  return kits[0]?.sign({ body: Buffer.from(payload), headers }, secret, 0) ?? {}
}

describe('Shopify SDK', () => {
  const vendor = shopifyApi({
    apiKey: 'key',
    apiSecretKey: secret,
    apiVersion: ApiVersion.October25,
    hostName: 'hooks.example.com',
    isEmbeddedApp: false,
    logger: { level: LogSeverity.Error },
  })
  const payload = fixture('order-created')
  const validate = (headers: Record<string, string>, rawBody = payload) =>
    vendor.webhooks.validate({
      rawBody,
      rawRequest: new Request('https://hooks.example.com/', { method: 'POST', headers }),
    })

  test.each(['x-shopify', 'shopify'])(
    'storefront: Shopify’s validator and the adapter give the same result for headers with the prefix %s',
    async (prefix) => {
      const hmac = signed(payload)['x-storefront-hmac-sha256'] ?? ''
      const headers = {
        [`${prefix}-hmac-sha256`]: hmac,
        [`${prefix}-topic`]: 'orders/create',
        [`${prefix}-shop-domain`]: shop,
        [`${prefix}-api-version`]: '2026-10',
        [`${prefix}-webhook-id`]: 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
      }
      expect(await validate(headers)).toMatchObject({ valid: true })
      expect(storefront.verify(callOf(payload, headers, shop), keys)).toEqual({ kind: 'verified' })
      expect(storefront.normalize(callOf(payload, headers, shop))).toMatchObject({
        sourceEventId: 'b54557e4-bdd9-4b37-8a5f-bf7d70bcd043',
        type: 'order.created',
      })

      expect(await validate(headers, `${payload} `)).toMatchObject({ valid: false })
      expect(storefront.verify(callOf(`${payload} `, headers, shop), keys)).toMatchObject({
        cause: 'signature_mismatch',
      })
    },
  )
})

describe('shop domain', () => {
  const payload = fixture('order-created')
  const verify = (headers: Record<string, string>, shopDomain?: string) =>
    storefront.verify(callOf(payload, signed(payload, headers), shopDomain), keys)

  test.each([
    ['is the tenant’s', { 'X-Shopify-Shop-Domain': shop }, 'verified'],
    ['is the tenant’s in mixed case', { 'X-Storefront-Shop-Domain': 'ACME.myshopify.com' }, 'verified'],
    ['is not the tenant’s', { 'X-Shopify-Shop-Domain': 'other.myshopify.com' }, 'refused'],
    ['begins like the tenant’s', { 'X-Shopify-Shop-Domain': `${shop}.example.com` }, 'refused'],
    ['is repeated', { 'X-Shopify-Shop-Domain': `${shop}, ${shop}` }, 'refused'],
    [
      'differs between two headers',
      { 'X-Shopify-Shop-Domain': shop, 'Shopify-Shop-Domain': 'other.myshopify.com' },
      'refused',
    ],
    ['is missing', {}, 'refused'],
  ])('storefront: verifies or refuses a call as documented if its shop domain %s', (_what, headers, kind) => {
    const verification = verify(headers, shop)
    expect(verification).toEqual(kind === 'verified' ? { kind } : { kind: 'refused', cause: 'shop_mismatch' })
  })

  test('storefront: without the setting `shopDomain`, a call of any shop is accepted', () => {
    expect(verify({ 'X-Shopify-Shop-Domain': 'other.myshopify.com' })).toEqual({ kind: 'verified' })
  })
})

describe('events', () => {
  const idHeaders = { 'x-shopify-webhook-id': 'wh-1', 'x-shopify-event-id': 'ev-1' }

  test.each([
    ['order-created', { 'x-shopify-topic': 'orders/create' }, 'orders/create', 'order.created'],
    [
      'dispute-under-review',
      { 'x-shopify-topic': 'disputes/update' },
      'disputes/update',
      'chargeback.under_review',
    ],
    [
      'transaction-captured',
      { 'x-shopify-topic': 'order_transactions/create' },
      'order_transactions/create',
      'payment.succeeded',
    ],
    [
      'product-event',
      { 'shopify-topic': 'Product', 'shopify-action': 'update' },
      'Product/update',
      'product.updated',
    ],
    [
      'order-created',
      { 'x-shopify-topic': 'product_feeds/full_sync' },
      'product_feeds/full_sync',
      'storefront.product_feeds.full_sync',
    ],
    [
      'order-created',
      { 'x-shopify-topic': 'customer.joined_segment' },
      'customer.joined_segment',
      'customer.segment_joined',
    ],
  ])(
    'storefront: fixture %s with headers %j is normalized to raw type %s and type %s',
    (name, headers, rawType, type) => {
      const payload = fixture(name)
      const time = { 'x-shopify-triggered-at': '2026-11-10T16:10:00.123456789Z' }
      expect(storefront.normalize(callOf(payload, { ...idHeaders, ...time, ...headers }))).toEqual({
        kind: 'event',
        sourceEventId: 'wh-1',
        rawType,
        type,
        occurredAtMs: Date.parse('2026-11-10T16:10:00.123Z'),
        payload,
      })
    },
  )

  test('storefront: a 64-bit id is unchanged in the payload', () => {
    const payload = fixture('order-created')
    const event = storefront.normalize(callOf(payload, { ...idHeaders, 'x-shopify-topic': 'orders/create' }))
    expect(event).toMatchObject({ payload: expect.stringContaining('"id": 820982911946154508,') })
  })

  test('storefront: the Event-Id header does not replace the Webhook-Id header', () => {
    const event = storefront.normalize(callOf('{"id":1}', { 'x-shopify-event-id': 'ev-1' }))
    expect(event).toEqual({ kind: 'refused', cause: 'event_id_missing' })
  })

  test('storefront: `occurredAtMs` is undefined if the time is invalid or two headers have different times', () => {
    for (const times of [
      { 'x-shopify-triggered-at': 'now' },
      { 'x-shopify-triggered-at': '2026-11-10T16:10:00Z', 'shopify-triggered-at': '2026-11-10T16:10:01Z' },
    ]) {
      const event = storefront.normalize(callOf('{}', { ...idHeaders, ...(times as Record<string, string>) }))
      expect(event).toMatchObject({ kind: 'event', occurredAtMs: undefined, type: 'storefront.unknown' })
    }
  })
})

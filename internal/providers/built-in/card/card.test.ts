import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Stripe } from 'stripe'
import { kits } from '#test/support/intake/provider-kits/card.ts'
import type { ProviderCall } from '../../provider.ts'
import { card } from '../declarations.ts'

const secret = 'whsec_b1T9xq0oKJ'
const nowMs = 1_794_300_000_000
const stripe = new Stripe('sk_test_unused')
const keys = card.prepare([secret])
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.json`, 'utf8')

function callOf(payload: string, headers: Record<string, string> = {}): ProviderCall {
  return {
    body: Buffer.from(payload),
    headers: new Headers(headers),
    settings: {},
    nowMs,
    signatureAgeMsMax: 300_000,
  }
}

function read(payload: string) {
  const event = card.normalize(callOf(payload))
  if (event.kind !== 'event') throw new Error(event.cause)
  return event
}

describe('Stripe SDK', () => {
  const payload = fixture('payment-succeeded')
  const signByVendor = (by: string, scheme = 'v1') =>
    stripe.webhooks.generateTestHeaderStringAsync({ payload, secret: by, timestamp: nowMs / 1000, scheme })

  test('card: a call signed by Stripe’s SDK is verified under both header names', async () => {
    const header = await signByVendor(secret)
    for (const name of ['Stripe-Signature', 'Card-Signature']) {
      expect(card.verify(callOf(payload, { [name]: header }), keys)).toEqual({ kind: 'verified' })
    }
  })

  test('card: Stripe’s SDK verifies what the conformance kit signs', async () => {
    const [kit] = kits
    const header = kit?.sign({ body: Buffer.from(payload), headers: {} }, secret, Date.now())[
      'card-signature'
    ]
    const event = await stripe.webhooks.constructEventAsync(payload, header ?? '', secret)
    expect(event.id).toBe('evt_3SLYyY2eZvKYlo2C1vWxYzAb')
  })

  test('card: a call with only a v0 signature is refused', async () => {
    const header = await signByVendor(secret, 'v0')
    const verification = card.verify(callOf(payload, { 'stripe-signature': header }), keys)
    expect(verification).toEqual({ kind: 'refused', cause: 'scheme_unknown' })
  })

  test('card: during a rotation one matching signature is enough', async () => {
    const old = (await signByVendor('whsec_old')).split(',v1=')[1] ?? ''
    const header = `${await signByVendor(secret)},v1=${old},v1=not-hex,v0=${'b'.repeat(64)}`
    for (const live of [secret, 'whsec_old']) {
      const verification = card.verify(callOf(payload, { 'stripe-signature': header }), card.prepare([live]))
      expect(verification).toEqual({ kind: 'verified' })
    }
  })
})

describe('signature header', () => {
  const payload = fixture('payment-succeeded')
  const [kit] = kits
  const signed = kit?.sign({ body: Buffer.from(payload), headers: {} }, secret, nowMs)['card-signature'] ?? ''
  const v1 = signed.split(',')[1] ?? ''

  test.each([
    ['a pair without =', `${signed},v1`],
    ['a pair with two equals signs', `${signed},v0=a=b`],
    ['no time', v1],
    ['two times', `t=1794300000,${signed}`],
    ['a time that is not a number', `t=17943000a0,${v1}`],
    ['a negative time', `t=-1794300000,${v1}`],
    ['a time that is too long', `t=${'1'.repeat(13)},${v1}`],
    ['an undecodable signature', 't=1794300000,v1=abc'],
    ['an empty pair', `${signed},`],
    ['too many signatures', `t=1794300000${`,${v1}`.repeat(21)}`],
  ])('card: a signature header with %s is malformed', (_what, value) => {
    const verification = card.verify(callOf(payload, { 'card-signature': value }), keys)
    expect(verification).toEqual({ kind: 'refused', cause: 'signature_malformed' })
  })

  test('card: the signed time is compared as text, so a rewritten time is a signature mismatch', () => {
    const verification = card.verify(callOf(payload, { 'card-signature': `t=01794300000,${v1}` }), keys)
    expect(verification).toEqual({ kind: 'refused', cause: 'signature_mismatch' })
  })
})

describe('events', () => {
  test.each([
    ['dispute-under-review', 'charge.dispute.updated', 'chargeback.under_review'],
    ['dispute-lost', 'charge.dispute.closed', 'chargeback.lost'],
    ['payment-succeeded', 'payment_intent.succeeded', 'payment.succeeded'],
    ['charge-authorized', 'charge.succeeded', 'payment.authorized'],
    ['refund-updated', 'refund.updated', 'refund.succeeded'],
    [
      'thin-meter-error',
      'v1.billing.meter.error_report_triggered',
      'card.v1.billing.meter.error_report_triggered',
    ],
  ])('card: fixture %s with raw type %s is normalized to %s', (name, rawType, type) => {
    const payload = fixture(name)
    const { id, created } = JSON.parse(payload) as { id: string; created: number | string }
    expect(read(payload)).toEqual({
      kind: 'event',
      sourceEventId: id,
      rawType,
      type,
      occurredAtMs: typeof created === 'number' ? created * 1000 : Date.parse(created),
      payload,
    })
  })

  test('card: a body without the object that determines the type still has a type', () => {
    for (const data of [undefined, null, [], { object: null }, { object: { status: 1 } }]) {
      expect(read(JSON.stringify({ id: 'evt_1', type: 'charge.dispute.updated', data })).type).toBe(
        'chargeback.updated',
      )
    }
  })

  test.each([
    ['text', '"soon"'],
    ['a negative number', '-1'],
    ['a number that is too large', '1e300'],
    ['a time without its offset', '"2026-11-10T08:12:31"'],
    ['an invalid day', '"2026-13-45T08:12:31Z"'],
    ['null', 'null'],
  ])('card: occurredAtMs is undefined if `created` is %s', (_what, created) => {
    expect(read(`{"id":"evt_1","type":"a","created":${created}}`).occurredAtMs).toBeUndefined()
  })

  test.each([
    ['a number', '{"id":12,"type":"a"}', 'event_id_malformed'],
    ['an object', '{"id":{},"type":"a"}', 'event_id_malformed'],
    ['half a surrogate pair', '{"id":"a\\ud800","type":"a"}', 'event_id_malformed'],
    ['null', '{"id":null,"type":"a"}', 'event_id_missing'],
    ['inherited from __proto__', '{"__proto__":{"id":"a"},"type":"a"}', 'event_id_missing'],
  ])('card: an id that is %s is refused', (_what, payload, cause) => {
    expect(card.normalize(callOf(payload))).toEqual({ kind: 'refused', cause: cause as 'event_id_missing' })
  })

  test('card: a missing type becomes `unknown`, and a type that is not text is refused', () => {
    expect(read('{"id":"evt_1"}')).toMatchObject({ rawType: 'unknown', type: 'card.unknown' })
    const verdict = card.normalize(callOf('{"id":"evt_1","type":7}'))
    expect(verdict).toEqual({ kind: 'refused', cause: 'event_type_malformed' })
  })
})

import { describe, expect, test } from 'bun:test'
import { createHash, createHmac } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { BraintreeGateway, Environment } from 'braintree'
import { braintreeKinds } from '#test/support/intake/braintree-kinds.ts'
import type { ProviderCall } from '../../provider.ts'
import { gateway } from './provider.ts'

const publicKey = 'integration_public_key'
const privateKey = 'integration_private_key'
const vendor = new BraintreeGateway({
  environment: Environment.Sandbox,
  merchantId: 'integration_merchant_id',
  publicKey,
  privateKey,
})
const keys = gateway.prepare([privateKey])
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.xml`)
const refused = (cause: string) => ({ kind: 'refused' as const, cause: cause as 'signature_missing' })

interface Fields {
  readonly bt_signature: string
  readonly bt_payload: string
}

function callOf(fields: Record<string, string> | string, publicKeyOfTenant = publicKey): ProviderCall {
  return {
    body: Buffer.from(typeof fields === 'string' ? fields : new URLSearchParams(fields).toString()),
    headers: new Headers({ 'content-type': 'application/x-www-form-urlencoded' }),
    settings: { gateway: { publicKey: publicKeyOfTenant } },
    nowMs: Date.UTC(2026, 10, 10),
    signatureAgeMsMax: 300_000,
  }
}

function signed(payload: string, by = privateKey): Fields {
  const hex = createHmac('sha1', createHash('sha1').update(by).digest()).update(payload).digest('hex')
  return { bt_signature: `${publicKey}|${hex}`, bt_payload: payload }
}
const ofXml = (xml: string | Buffer): Record<string, string> => ({
  ...signed(`${Buffer.from(xml).toString('base64')}\n`),
})

function read(fields: Record<string, string>) {
  const event = gateway.normalize(callOf(fields))
  if (event.kind !== 'event') throw new Error(event.cause)
  return event
}

describe('Braintree SDK', () => {
  test.each(braintreeKinds)(
    'gateway: the vendor SDK’s sample of %s is verified and normalized',
    async (kind) => {
      const sample = (await vendor.webhookTesting.sampleNotification(kind, 'my_id')) as unknown as Fields
      const call = callOf({ ...sample })
      expect(gateway.verify(call, keys)).toEqual({ kind: 'verified' })
      const event = read({ ...sample })
      expect(event).toMatchObject({ rawType: kind, sourceEventId: expect.stringMatching(/^[0-9a-f]{64}$/) })
      expect(event.occurredAtMs).toBeWithin(Date.now() - 60_000, Date.now() + 60_000)
      const parsed = await vendor.webhookNotification.parse(sample.bt_signature, sample.bt_payload)
      const { notification } = JSON.parse(event.payload)
      expect(notification).toMatchObject({ kind: parsed.kind, subject: expect.anything() })
    },
  )

  test('gateway: Braintree’s SDK verifies what the conformance kit signs', async () => {
    const { bt_signature = '', bt_payload = '' } = ofXml(fixture('dispute-lost'))
    const parsed = await vendor.webhookNotification.parse(bt_signature, bt_payload)
    expect(parsed).toMatchObject({ kind: 'dispute_lost' })
  })
})

describe('form', () => {
  const fields = signed('AAAA\n')
  const { bt_signature: signature, bt_payload: payload } = fields

  test('gateway: neutral field names work like the vendor’s names, and different values are refused', () => {
    const neutral = { gateway_signature: signature, gateway_payload: payload }
    expect(gateway.verify(callOf(neutral), keys)).toEqual({ kind: 'verified' })
    expect(gateway.verify(callOf({ ...fields, ...neutral, other: 'x' }), keys)).toEqual({ kind: 'verified' })
    for (const other of [{ gateway_payload: 'BBBB' }, { gateway_signature: 'a|b' }]) {
      expect(gateway.verify(callOf({ ...fields, ...other }), keys)).toEqual(refused('headers_conflict'))
      expect(gateway.normalize(callOf({ ...fields, ...other }))).toEqual(refused('headers_conflict'))
    }
    const twice = `${new URLSearchParams({ ...fields })}&bt_payload=BBBB`
    expect(gateway.verify(callOf(twice), keys)).toEqual(refused('headers_conflict'))
  })

  test.each([
    ['no signature', { bt_payload: payload }, 'signature_missing'],
    ['an empty signature', { ...fields, bt_signature: '' }, 'signature_missing'],
    ['no payload', { bt_signature: signature }, 'signature_missing'],
    ['an empty payload', { ...fields, bt_payload: '' }, 'signature_missing'],
    ['JSON', '{"id":"a"}', 'signature_missing'],
    ['a signature without its key', { ...fields, bt_signature: 'a'.repeat(40) }, 'signature_malformed'],
    ['a signature of three parts', { ...fields, bt_signature: `${signature}|a` }, 'signature_malformed'],
    [
      'a signature that is too short',
      { ...fields, bt_signature: `${publicKey}|abcd` },
      'signature_malformed',
    ],
    ['too many signatures', { ...fields, bt_signature: `${signature}&`.repeat(21) }, 'signature_malformed'],
    ['a signature by another public key', { ...fields, bt_signature: `x${signature}` }, 'signature_mismatch'],
    [
      'a payload with a character outside base64',
      { ...fields, bt_payload: `${payload}!` },
      'signature_malformed',
    ],
    ['a plus that is not escaped', `bt_signature=${signature}&bt_payload=A+AA`, 'signature_malformed'],
    ['broken escapes', 'bt_signature=%zz&bt_payload=AAAA', 'signature_malformed'],
    ['a changed payload', { ...fields, bt_payload: 'AAAB\n' }, 'signature_mismatch'],
    ['a signature by another private key', { ...signed('AAAA\n', 'other') }, 'signature_mismatch'],
  ])('gateway: a form with %s is refused', (_what, form, cause) => {
    expect(gateway.verify(callOf(form as Record<string, string>), keys)).toEqual(refused(cause))
  })

  test('gateway: a signature that names another public key than the tenant’s is ignored', () => {
    expect(gateway.verify(callOf({ ...fields }, 'other_key'), keys)).toEqual(refused('signature_mismatch'))
    const none = { ...callOf({ ...fields }), settings: {} }
    expect(gateway.verify(none, keys)).toEqual(refused('signature_mismatch'))
    const several = { ...fields, bt_signature: `old_key|${'0'.repeat(40)}&${signature}` }
    expect(gateway.verify(callOf(several), keys)).toEqual({ kind: 'verified' })
  })

  test('gateway: a payload that lost its signed final line feed is verified and becomes the same event', () => {
    const { bt_signature = '', bt_payload = '' } = ofXml(fixture('dispute-lost'))
    const bare = { bt_signature, bt_payload: bt_payload.trimEnd() }
    expect(gateway.verify(callOf(bare), keys)).toEqual({ kind: 'verified' })
    expect(read(bare).sourceEventId).toBe(read({ bt_signature, bt_payload }).sourceEventId)
  })
})

describe('events', () => {
  test('gateway: the payload of an event contains the element names and text values of the XML', () => {
    const event = read(ofXml(fixture('dispute-lost')))
    expect(event).toMatchObject({
      rawType: 'dispute_lost',
      type: 'chargeback.lost',
      occurredAtMs: Date.UTC(2026, 10, 12, 18, 23, 29),
    })
    expect(JSON.parse(event.payload)).toEqual({
      notification: {
        timestamp: '2026-11-12T18:23:29Z',
        kind: 'dispute_lost',
        subject: {
          dispute: {
            id: 'dispute_1',
            amount: '250.00',
            'amount-disputed': '250.0',
            'currency-iso-code': 'USD',
            'received-date': '2026-10-01',
            kind: 'chargeback',
            status: 'lost',
            reason: 'fraud',
            'reason-description': null,
            transaction: { id: 'txn_1', amount: '250.00' },
            evidence: [{ document: undefined, comment: 'Bons & Léttres' }],
          },
        },
      },
    })
  })

  test.each([
    ['true', 'payout.paid'],
    ['false', 'payout.failed'],
    ['maybe', 'gateway.disbursement'],
  ])('gateway: a disbursement with success %s becomes %s', (success, type) => {
    const xml = fixture('disbursement-failed').toString().replace('>false</success>', `>${success}</success>`)
    expect(read(ofXml(xml)).type).toBe(type)
  })

  test('gateway: an unlisted kind becomes the type `gateway.<kind>`', () => {
    expect(read(ofXml('<notification><kind>check</kind></notification>')).type).toBe('gateway.check')
  })

  test.each([
    ['another root', '<other><kind>check</kind></other>'],
    ['text without elements', '<notification>a</notification>'],
    ['a nil notification', '<notification nil="true"/>'],
    ['a list', '<notification type="array"><kind>check</kind></notification>'],
    ['JSON', '{"kind":"check"}'],
    ['a document type', '<!DOCTYPE n [<!ENTITY a "b">]><notification><kind>check</kind></notification>'],
  ])('gateway: a payload of %s is refused', (_what, xml) => {
    expect(gateway.normalize(callOf(ofXml(xml)))).toEqual(refused('body_not_json'))
  })

  test('gateway: a payload that is not base64-encoded UTF-8 is refused', () => {
    for (const payload of ['AAA', 'A===', '//79', '\n']) {
      expect(gateway.normalize(callOf({ ...signed(payload) }))).toEqual(refused('body_not_json'))
    }
  })
})

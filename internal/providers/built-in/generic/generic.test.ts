import { describe, expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { Webhook } from 'standardwebhooks'
import { kits } from '#test/support/intake/provider-kits/generic.ts'
import type { ProviderCall } from '../../provider.ts'
import { generic } from '../declarations.ts'

const secret = `whsec_${Buffer.alloc(32, 7).toString('base64')}`
const nowMs = 1_794_300_000_000
const keys = generic.prepare([secret])
const fixture = (name: string) => readFileSync(`${import.meta.dir}/fixtures/${name}.json`, 'utf8')
const [service, standard] = kits

function callOf(payload: string, headers: Readonly<Record<string, string>> = {}): ProviderCall {
  return {
    body: Buffer.from(payload),
    headers: new Headers(headers),
    settings: {},
    nowMs,
    signatureAgeMsMax: 300_000,
  }
}

function read(payload: string, headers: Readonly<Record<string, string>> = {}) {
  return generic.normalize(callOf(payload, headers))
}

const signedByService = (payload: string, headers: Record<string, string> = {}) =>
  service?.sign({ body: Buffer.from(payload), headers }, secret, nowMs) ?? {}
const signedByStandard = (payload: string, headers: Record<string, string>) =>
  standard?.sign({ body: Buffer.from(payload), headers }, secret, nowMs) ?? {}

describe('Standard Webhooks SDK', () => {
  const payload = fixture('standard-webhook')
  const id = 'msg_2KWPBgLlAfxdpx2AI54pPJ85f4W'
  const headersBy = (signer: Webhook, ms = nowMs) => ({
    'webhook-id': id,
    'webhook-timestamp': String(ms / 1000),
    'webhook-signature': signer.sign(id, new Date(ms), payload),
  })

  test('generic: a call signed by the Standard Webhooks SDK is verified and normalized', () => {
    const call = callOf(payload, headersBy(new Webhook(secret)))
    expect(generic.verify(call, keys)).toEqual({ kind: 'verified' })
    expect(generic.normalize(call)).toMatchObject({
      sourceEventId: id,
      rawType: 'contact.created',
      type: 'contact.created',
      payload,
    })
  })

  test('generic: the Standard Webhooks SDK verifies what the conformance kit signs', () => {
    const now = Math.floor(Date.now() / 1000) * 1000
    const headers =
      standard?.sign({ body: Buffer.from(payload), headers: { 'webhook-id': id } }, secret, now) ?? {}
    expect(new Webhook(secret).verify(payload, headers)).toEqual(JSON.parse(payload))
  })

  test('generic: a secret without a prefix can be base64 or plain text', () => {
    const encoded = secret.slice('whsec_'.length)
    const text = 'a secret that is no base64!'
    for (const [value, signer] of [
      [encoded, new Webhook(encoded)],
      [encoded, new Webhook(encoded, { format: 'raw' })],
      [text, new Webhook(text, { format: 'raw' })],
    ] as const) {
      const verification = generic.verify(callOf(payload, headersBy(signer)), generic.prepare([value]))
      expect(verification).toEqual({ kind: 'verified' })
    }
  })

  test('generic: no signature is valid under a key that is too short or not base64', () => {
    for (const [value, key] of [
      ['whsec_AAAA', Buffer.alloc(3)],
      ['AAAA', Buffer.alloc(3)],
      ['whsec_!!!!', Buffer.from('!!!!')],
      ['whsec_', Buffer.from('whsec_')],
    ] as const) {
      const signer = new Webhook(key, { format: 'raw' })
      const verification = generic.verify(callOf(payload, headersBy(signer)), generic.prepare([value]))
      expect(verification).toEqual({ kind: 'refused', cause: 'signature_mismatch' })
    }
  })

  test('generic: one matching signature is enough, and signatures of other versions are skipped', () => {
    const headers = headersBy(new Webhook(secret))
    const other = new Webhook(Buffer.alloc(32, 9), { format: 'raw' }).sign(id, new Date(nowMs), payload)
    const signature = `v1a,${'a'.repeat(86)}== ${other} ${headers['webhook-signature']}`
    const call = callOf(payload, { ...headers, 'webhook-signature': signature })
    expect(generic.verify(call, keys)).toEqual({ kind: 'verified' })
  })

  test.each([
    ['no time', { 'webhook-timestamp': '' }, 'signature_malformed'],
    ['a time that is not a number', { 'webhook-timestamp': '1794300000.0' }, 'signature_malformed'],
    ['a changed time', { 'webhook-timestamp': '1794300001' }, 'signature_mismatch'],
    ['a changed id', { 'webhook-id': 'msg_other' }, 'signature_mismatch'],
    ['no version', { 'webhook-signature': 'abc' }, 'signature_malformed'],
    ['an undecodable signature', { 'webhook-signature': 'v1,abc' }, 'signature_malformed'],
    [
      'too many signatures',
      { 'webhook-signature': `v1,${'a'.repeat(43)}= `.repeat(21).trim() },
      'signature_malformed',
    ],
  ])('generic: a Standard Webhooks call with %s is refused', (_what, changed, cause) => {
    const call = callOf(payload, {
      ...headersBy(new Webhook(secret)),
      ...(changed as Record<string, string>),
    })
    expect(generic.verify(call, keys)).toEqual({ kind: 'refused', cause: cause as 'signature_mismatch' })
  })
})

describe('event id', () => {
  const payload = '{"id":"in-body","type":"a.b"}'

  const signed = { 'X-Service-Signature': 't=1,v1=a' }
  const signedHeader = { 'webhook-signature': 'v1,a' }
  test.each<[string, string, Record<string, string>, string]>([
    ['the body’s id if no header has one', payload, signed, 'in-body'],
    [
      'the body’s id if the header has the same id',
      payload,
      { ...signed, 'X-Service-Event-Id': 'in-body' },
      'in-body',
    ],
    ['the body’s id if webhook-id is the same', payload, { ...signed, 'webhook-id': 'in-body' }, 'in-body'],
    ['the header’s id if the body has none', '{"type":"a.b"}', { ...signed, 'X-Service-Event-Id': 'h' }, 'h'],
    [
      'the header’s id if the body’s id is empty',
      '{"id":"","type":"a.b"}',
      { ...signed, 'webhook-id': 'h' },
      'h',
    ],
    [
      'the header’s id if the body’s id is the same number',
      '{"id":7,"type":"a.b"}',
      { ...signed, 'webhook-id': '7' },
      '7',
    ],
    [
      'the signed header’s id if the body’s id is a different number',
      '{"id":7,"type":"a.b"}',
      { ...signedHeader, 'webhook-id': 'h' },
      'h',
    ],
    [
      'the signed header’s id, whatever id the body has',
      payload,
      { ...signedHeader, 'webhook-id': 'h' },
      'h',
    ],
  ])('generic: the event id is %s', (_what, body, headers, eventId) => {
    expect(read(body, headers)).toMatchObject({ sourceEventId: eventId })
  })

  test.each(['X-Service-Event-Id', 'webhook-id'])(
    'generic: an id in the unsigned header %s is refused if the signed body has a different id',
    (name) => {
      const conflict = { kind: 'refused', cause: 'headers_conflict' } as const
      const call = callOf(payload, signedByService(payload, { [name]: 'in-header' }))
      expect(generic.verify(call, keys)).toEqual({ kind: 'verified' })
      expect(generic.normalize(call)).toEqual(conflict)
      expect(read('{"id":"a\\u0001","type":"a.b"}', { ...signed, [name]: 'a' })).toEqual(conflict)
      expect(read('{"id":7,"type":"a.b"}', { ...signed, [name]: 'h' })).toEqual(conflict)
      expect(read('{"id":7,"type":"a.b"}', { ...signed, [name]: '07' })).toEqual(conflict)
      expect(read('{"id":0,"type":"a.b"}', { ...signed, [name]: 'h' })).toEqual(conflict)
    },
  )

  test('generic: id headers with different values are refused', () => {
    const headers = { 'x-service-event-id': 'one', 'webhook-id': 'two' }
    const conflict = { kind: 'refused', cause: 'headers_conflict' } as const
    expect(generic.verify(callOf(payload, signedByStandard(payload, headers)), keys)).toEqual(conflict)
    expect(generic.verify(callOf(payload, signedByService(payload, headers)), keys)).toEqual(conflict)
    expect(read(payload, headers)).toEqual(conflict)
  })

  test('generic: a Standard Webhooks call uses the signed id', () => {
    const headers = signedByStandard(payload, { 'x-service-event-id': 'one' })
    expect(generic.verify(callOf(payload, headers), keys)).toEqual({
      kind: 'refused',
      cause: 'event_id_missing',
    })
  })

  test('generic: a numeric id is refused', () => {
    expect(read('{"id":820982911946154508,"type":"a.b"}')).toEqual({
      kind: 'refused',
      cause: 'event_id_malformed',
    })
  })
})

test('generic: a call that is signed in two schemes is refused', () => {
  const payload = fixture('standard-webhook')
  const headers = { ...signedByStandard(payload, { 'webhook-id': 'a' }), ...signedByService(payload) }
  expect(generic.verify(callOf(payload, headers), keys)).toEqual({
    kind: 'refused',
    cause: 'headers_conflict',
  })
})

test('generic: Latchkey’s own format is normalized', () => {
  const payload = fixture('invoice-approved')
  const call = callOf(payload, signedByService(payload))
  expect(generic.verify(call, keys)).toEqual({ kind: 'verified' })
  expect(generic.normalize(call)).toEqual({
    kind: 'event',
    sourceEventId: 'inv-20417-approved',
    rawType: 'invoice.approved',
    type: 'invoice.approved',
    occurredAtMs: Date.parse('2026-11-10T09:00:00.250Z'),
    payload,
  })
})

test.each([
  ['"2026-11-10T09:00:00Z"', Date.parse('2026-11-10T09:00:00Z')],
  ['"2026-11-10T09:00:00"', undefined],
  ['"2026-11-10"', undefined],
  ['1794300000', undefined],
  ['null', undefined],
])('generic: reads occurredAt %s as %p', (value, occurredAtMs) => {
  expect(read(`{"id":"a","occurredAt":${value}}`)).toMatchObject({ kind: 'event', occurredAtMs })
})

test.each([
  ['invoice.approved', 'invoice.approved'],
  ['a_1.b_2.c_3', 'a_1.b_2.c_3'],
  ['invoice', 'generic.invoice'],
  ['Invoice.Approved', 'generic.invoice.approved'],
  ['invoice..approved', 'generic.invoice.approved'],
  ['.invoice.', 'generic.invoice'],
  ['invoice/line-item added', 'generic.invoice.line_item.added'],
  ['заказ', 'generic.unknown'],
  ['constructor', 'generic.constructor'],
  [`a.${'b'.repeat(253)}`, `a.${'b'.repeat(253)}`],
])('generic: raw type %s becomes %s', (rawType, type) => {
  expect(read(JSON.stringify({ id: 'a', type: rawType }))).toMatchObject({ kind: 'event', type })
})

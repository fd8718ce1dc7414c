// A declaration with all features that are often misunderstood: a newline in the signed text, the path, a signed handshake, a key in hex.

import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { parseProvider } from './manifest.ts'
import { declarationNotes } from './notes.ts'
import type { Declaration } from './schema.ts'
import { escapedText, traceCall } from './trace.ts'
import { callOf, runVectors } from './vectors.ts'

const key = '00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff'
const secret = `phk_${key}`
const seconds = 1_794_300_001
const at = '2026-11-10T08:40:04Z'
const url = '/v1/t/shop/webhooks/parcelhive'

const scheme = {
  algorithm: 'hmac-sha512',
  signature: { header: 'signature', pairs: { separator: ',', assign: '=', name: 's' } },
  encoding: 'base64url',
  signs: '{method}\n{path}\n{timestamp}.{body}',
  key: { prefix: 'phk_', decode: 'hex' },
  timestamp: { pair: 't', unit: 's' },
}

function vectorOf(name: string, body: string, expected: object, more: object = {}) {
  const text = `POST\n${url}\n${seconds}.${body}`
  const mac = createHmac('sha512', Buffer.from(key, 'hex')).update(text).digest('base64url')
  const headers = { 'X-Hive-Signature': `t=${seconds},s=${mac}`, 'X-Hive-Delivery': `d_${name}` }
  return { name, secrets: [secret], at, url, headers, body, expect: expected, ...more }
}

const eventVector = vectorOf('delivered', '{"kind":"shipment.delivered"}', {
  id: 'd_delivered',
  type: 'shipment.delivered',
})
const pingVector = vectorOf('ping', '{"kind":"ping","token":"abc"}', { answer: 'abc' })

function declare(change: object = {}, changedScheme: object = {}): Declaration {
  const manifest = {
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Provider',
    metadata: { name: 'parcelhive' },
    spec: {
      body: { bytesMax: 65_536, json: {} },
      headers: { signature: { names: ['X-Hive-Signature'] }, delivery: { names: ['X-Hive-Delivery'] } },
      signature: { schemes: [{ ...scheme, ...changedScheme }] },
      event: { id: [{ header: ['delivery'] }], type: { from: [{ json: 'kind' }] } },
      types: [{ raw: 'shipment.delivered', type: 'shipment.delivered' }],
      handshakes: [
        {
          method: 'POST',
          isSigned: true,
          when: [{ path: 'kind', values: ['ping'] }],
          challenge: { json: 'token' },
          reply: { text: '{challenge}' },
        },
      ],
      vectors: [eventVector, pingVector],
      ...change,
    },
  }
  // Removes undefined members, which parsed YAML does not have.
  const parsed = parseProvider(JSON.parse(JSON.stringify(manifest)))
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.declaration
}

const notesOf = (declaration: Declaration) =>
  declarationNotes(declaration).map(({ path, message }) => `${path} ${message}`)

const unsignedId =
  'spec.event.id[0] is a header that is not signed: a captured call can be repeated under other ids for LATCHKEY_SIGNATURE_MAX_AGE_SECONDS s after it was signed'

test('vectors: the vector of a signed handshake with an event id header passes, because a handshake does not read the id', () => {
  expect(runVectors(declare())).toEqual([])
})

test('notes: an event id header is reported unless the header is signed or must equal an id of the body', () => {
  expect(notesOf(declare())).toEqual([unsignedId])
  expect(notesOf(declare({ vectors: undefined }, { signs: '{path}{id}{timestamp}.{body}' }))).toEqual([])
  const event = { id: [{ header: ['delivery'] }, { json: 'id' }], type: { from: [{ json: 'kind' }] } }
  expect(notesOf(declare({ event }))).toEqual([])
})

test.each([
  [
    'a backslash followed by n',
    {},
    { signs: '{method}\\n{timestamp}.{body}' },
    'schemes[0].signs has a backslash and n, not a newline: write the text in double quotes',
  ],
  [
    'a vector without the signed path',
    { vectors: [{ ...eventVector, url: undefined }] },
    {},
    'spec.vectors[0] has no url, but signs has {path}, which is empty without it',
  ],
  [
    'a type that is misspelt',
    { types: [{ raw: 'a', type: 'shipmnt.deliverd' }] },
    {},
    'spec.types[0].type is shipmnt.deliverd, which is not in the catalogue of event types: did you mean shipment.delivered?',
  ],
  [
    'a type that resembles no known type',
    { types: [{ raw: 'a', type: 'warehouse.burnt' }] },
    {},
    'spec.types[0].type is warehouse.burnt, which is not in the catalogue of event types: see the reference',
  ],
] as const)('notes: %s is reported', (_name, change, changedScheme, note) => {
  const found = notesOf(declare(change, changedScheme)).filter((each) => each !== unsignedId)
  expect(found).toHaveLength(1)
  expect(found[0]).toContain(note)
})

test('notes: a vendor’s own type, which begins with the vendor’s name, is not reported', () => {
  expect(notesOf(declare({ types: [{ raw: 'a', type: 'parcelhive.weighed' }] }))).toEqual([unsignedId])
})

function traceWith(change: object, changedScheme: object = {}, secrets: readonly string[] = [secret]) {
  const declaration = declare({ vectors: undefined }, changedScheme)
  return traceCall(declaration, callOf({ ...eventVector, ...change }), secrets)
}
const signatureOf = (text: string) => ({
  headers: { ...eventVector.headers, 'X-Hive-Signature': text },
})

test('trace: shows a signed newline and a backslash followed by n differently', () => {
  const right = traceWith({}).signed?.text ?? ''
  expect(escapedText(right)).toStartWith('POST\\n/v1/t/shop/')
  const wrong = traceWith({}, { signs: '{method}\\n{path}\\n{timestamp}.{body}' }).signed?.text ?? ''
  expect(escapedText(wrong)).toStartWith('POST\\\\n/v1/t/shop/')
  expect(escapedText('a\u001b[2J\u202e\t')).toBe('a\\u{1b}[2J\\u{202e}\\t')
})

const mac = Buffer.alloc(64, 7)
test.each([
  [
    'another encoding',
    `t=${seconds},s=${mac.toString('hex')}`,
    {},
    '128 characters are not base64url, but they have the form of hex',
  ],
  [
    'another hash',
    `t=${seconds},s=${mac.toString('base64url')}`,
    { algorithm: 'hmac-sha256' },
    '86 characters are base64url of 64 bytes, but hmac-sha256 has 32',
  ],
  ['no encoding at all', `t=${seconds},s=?!`, {}, '2 characters are not base64url'],
  [
    'another separator of pairs',
    `t=${seconds};s=${mac.toString('base64url')}`,
    {},
    'the value is no list of pairs, separated by ",", with one named s, as in s=…',
  ],
  ['no time', `s=${mac.toString('base64url')}`, {}, 'the value must have the pair t with the time once'],
  [
    'another prefix',
    'sha1=00',
    { signature: { header: 'signature', prefix: 'sha512=' }, timestamp: undefined, signs: '{body}' },
    'the value does not begin with "sha512="',
  ],
] as const)(
  'trace: a signature with %s is refused with an exact reason',
  (_name, value, changedScheme, reason) => {
    const { scheme: chosen, outcome } = traceWith(signatureOf(value), changedScheme)
    expect(outcome.kind).toBe('refused')
    expect(chosen?.malformed).toBe(reason)
  },
)

test.each([
  ['a secret in hex', {}, secret, '32 bytes, hex after phk_'],
  ['a forgotten decode', { key: { prefix: 'phk_' } }, secret, '64 bytes, the text itself after phk_'],
  ['a secret without its prefix', {}, key, '32 bytes, hex without phk_'],
  ['a secret that is not hex', {}, 'phk_secret-text', 'no key: 11 characters after phk_ are not hex'],
  [
    'a short key',
    { key: { decode: 'hex', bytesMin: 16 } },
    'aabb',
    'no key: 2 bytes, at least 16 are needed',
  ],
] as const)('trace: %s is described by form and length only', (_name, changedScheme, given, reason) => {
  const { scheme: chosen } = traceWith({}, changedScheme, [given])
  expect(chosen?.keyReasons).toEqual([reason])
  expect(JSON.stringify(chosen?.keyReasons)).not.toContain(given)
})

test('trace: for a call without a URL, names the signed `{path}` as empty', () => {
  expect(traceWith({ url: undefined }).scheme?.emptyVariable).toBe('{path}')
  expect(traceWith({}).scheme?.emptyVariable).toBeUndefined()
})

test('trace: for a time outside the window, names the other unit in which the time would be valid', () => {
  expect(traceWith({}, { timestamp: { pair: 't', unit: 'ms' } }).time?.otherUnit).toBe('s')
  expect(traceWith({}).time?.otherUnit).toBeUndefined()
})

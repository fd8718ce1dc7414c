// The event that a declared provider extracts from a verified call, and how the provider answers handshake calls.
import { describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import type { ProviderCall } from '../provider.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'

const form = 'application/x-www-form-urlencoded'
const spec = {
  body: { bytesMax: 1_000_000, json: {} },
  headers: { sig: { names: ['X-Sig'] } },
  signature: {
    schemes: [{ algorithm: 'hmac-sha256', signature: { header: 'sig' }, encoding: 'hex', signs: '{body}' }],
  },
  event: { id: [{ json: 'id' }], type: { from: [{ json: 'type' }] } },
}

function declare(changed: object) {
  const manifest = { apiVersion: 'latchkey.dev/v1alpha1', kind: 'Provider', metadata: { name: 'acme' } }
  const parsed = parseProvider({ ...manifest, spec: { ...spec, ...changed } })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return compileDeclaration(parsed.declaration)
}

function callOf(body: string, headers: Readonly<Record<string, string>> = {}): ProviderCall {
  return {
    body: Buffer.from(body),
    headers: new Headers(headers),
    settings: {},
    nowMs: 1_790_000_000_000,
    signatureAgeMsMax: 300_000,
  }
}

const read = (changed: object, body: string, headers: Readonly<Record<string, string>> = {}) =>
  declare(changed).normalize(callOf(body, headers))

describe('bodies', () => {
  const arrays = {
    body: { bytesMax: 1_000_000, json: { arrayAs: 'events' } },
    event: { id: [{ json: 'events.1.id' }], type: spec.event.type },
  }

  test('normalize: a body that is an array becomes a member of the payload, as received', () => {
    const payload = '{"events":[{"id":"a"}, {"id":"b","n":1.50}]}'
    expect(read(arrays, ' [{"id":"a"}, {"id":"b","n":1.50}]'.trim())).toMatchObject({
      payload,
      sourceEventId: 'b',
    })
    expect(read(arrays, '\n[{},{"id":"b"}]\n')).toMatchObject({ sourceEventId: 'b' })
    expect(read(arrays, '{"events":[0,{"id":"c"}]}')).toMatchObject({ sourceEventId: 'c' })
  })

  test.each([
    ['text behind the array', '[{},{"id":"b"}],"x":1', 'body_not_json'],
    ['a repeated member behind the array', '[{}],"events":[0,{"id":"b"}]', 'body_ambiguous'],
    ['half an array', '[{"id":"b"}', 'body_not_json'],
    ['too many levels', `${'['.repeat(256)}${']'.repeat(256)}`, 'body_too_deep'],
  ])('normalize: refuses %s', (_what, body, cause) => {
    expect(read(arrays, body)).toEqual({ kind: 'refused', cause: cause as 'body_not_json' })
  })

  const forms = { body: { bytesMax: 1_000_000, form: {} } }
  test('normalize: a form becomes an object of strings, with an array for a repeated field', () => {
    const body = 'id=a%20b&type=x.y&n=1&n=2&empty&__proto__=p'
    expect(read(forms, body, { 'Content-Type': form })).toMatchObject({
      payload: '{"id":"a b","type":"x.y","n":["1","2"],"empty":"","__proto__":"p"}',
      sourceEventId: 'a b',
    })
    expect(read(forms, body)).toEqual({ kind: 'refused', cause: 'body_not_json' })
  })

  test.each([
    ['a broken escape', 'id=%zz'],
    ['1001 fields', 'id=a&'.repeat(1001)],
  ])('normalize: refuses a form with %s', (_what, body) => {
    expect(read(forms, body, { 'Content-Type': form })).toEqual({ kind: 'refused', cause: 'body_not_json' })
  })
})

describe('event ids', () => {
  const withId = (...id: readonly object[]) => ({ event: { id, type: spec.event.type } })

  test.each<[string, object, string, string]>([
    ['the first value present', withId({ json: 'a' }, { json: 'b' }), '{"a":"","b":"x"}', 'x'],
    ['an integer, where it is declared', withId({ json: 'id', integer: true }), '{"id":7}', '7'],
    [
      'a hash, where nothing else is present',
      withId({ json: 'id' }, { hash: '{json:a}' }),
      '{"a":"abc"}',
      'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    ],
  ])('normalize: the id is %s', (_what, changed, body, id) => {
    expect(read(changed, body)).toMatchObject({ kind: 'event', sourceEventId: id })
  })

  test.each<[string, object, string, string]>([
    ['a fraction', withId({ json: 'id', integer: true }), '{"id":7.5}', 'event_id_malformed'],
    [
      'an integer beyond 2^53',
      withId({ json: 'id', integer: true }),
      '{"id":9007199254740993}',
      'event_id_malformed',
    ],
    [
      'an integer where no integer is declared',
      withId({ json: 'id' }, { json: 'b' }),
      '{"id":7,"b":"x"}',
      'event_id_malformed',
    ],
    ['missing', withId({ json: 'id' }, { json: 'b' }), '{}', 'event_id_missing'],
  ])('normalize: refuses an id that is %s', (_what, changed, body, cause) => {
    expect(read(changed, body)).toEqual({ kind: 'refused', cause: cause as 'event_id_missing' })
  })
})

test.each<[string, object, string, string, string]>([
  [
    'a fixed text',
    { from: [{ json: 'type' }, { text: 'callback' }] },
    '{"id":"a"}',
    'callback',
    'acme.callback',
  ],
  [
    'a type joined with its action',
    { from: [{ json: 'type' }], action: { json: 'action', separator: '/', joins: 'raw' } },
    '{"id":"a","type":"Issue","action":"create"}',
    'Issue/create',
    'acme.issue.create',
  ],
  [
    'a type whose action joins the derived type',
    { from: [{ json: 'type' }], action: { json: 'action', separator: '.', joins: 'unlisted' } },
    '{"id":"a","type":"Issue","action":"create"}',
    'Issue',
    'acme.issue.create',
  ],
])('normalize: the type is %s', (_what, type, body, rawType, normalized) => {
  expect(read({ event: { id: [{ json: 'id' }], type } }, body)).toMatchObject({ rawType, type: normalized })
})

describe('handshakes', () => {
  const secret = 'a secret'
  const answer = (handshakes: readonly object[], call: ProviderCall) => {
    const provider = declare({ handshakes })
    return provider.handshakes?.answer(call, provider.prepare([secret, 'another']))
  }
  const get = (query: string, method = 'GET'): ProviderCall => ({
    ...callOf(''),
    request: { method, url: `https://hooks.example.com/v1/acme${query}` },
  })
  const echo = [
    { method: 'GET', isSigned: false, challenge: { query: 'hub.challenge' }, reply: { text: '{challenge}' } },
  ]
  const crc = [
    {
      method: 'GET',
      isSigned: false,
      challenge: { query: 'crc_token' },
      hmac: { encoding: 'base64' },
      reply: { json: { response_token: 'sha256={hmac}', version: 1 } },
    },
  ]

  test('handshake: the answer is the challenge as plain text', () => {
    expect(answer(echo, get('?hub.mode=subscribe&hub.challenge=1158201444'))).toEqual({
      kind: 'answer',
      status: 200,
      contentType: 'text/plain; charset=utf-8',
      body: '1158201444',
    })
    expect(answer(echo, get('?hub.challenge=%3Cb%3Ehello'))).toMatchObject({ body: '<b>hello' })
  })

  test('handshake: the answer contains the HMAC of the challenge under the first secret', () => {
    const hmac = createHmac('sha256', secret).update('abc_DEF-1').digest('base64')
    expect(answer(crc, get('?crc_token=abc_DEF-1'))).toMatchObject({
      kind: 'answer',
      contentType: 'application/json',
      body: `{"response_token":"sha256=${hmac}","version":1}`,
    })
  })

  test('handshake: `HEAD` gets an empty answer without a challenge', () => {
    const head = [{ method: 'HEAD', isSigned: false, reply: {} }]
    expect(answer(head, get('', 'HEAD'))).toMatchObject({ kind: 'answer', body: '' })
    expect(answer(head, get(''))).toBeUndefined()
  })

  test.each<[string, readonly object[], string]>([
    ['a control character', echo, '?hub.challenge=a%0D%0Ab'],
    ['more than 1024 characters', echo, `?hub.challenge=${'a'.repeat(1025)}`],
    ['a brace, whose HMAC would sign an event', crc, '?crc_token=%7B%22id%22%3A%22a%22%7D'],
    ['129 characters, where the answer is an HMAC', crc, `?crc_token=${'a'.repeat(129)}`],
  ])('handshake: refuses a challenge with %s', (_what, handshakes, query) => {
    expect(answer(handshakes, get(query))).toEqual({ kind: 'refused', cause: 'signature_malformed' })
  })

  test('handshake: a call without a challenge, with two challenges or by another method is not a handshake', () => {
    for (const query of ['', '?hub.challenge=', '?hub.challenge=a&hub.challenge=b']) {
      expect(answer(echo, get(query))).toBeUndefined()
    }
    expect(
      answer(echo, { ...get('?hub.challenge=a'), request: { method: 'POST', url: '?hub.challenge=a' } }),
    ).toBeUndefined()
  })

  test('handshake: a handshake that must be signed is refused without a signature', () => {
    const handshakes = [
      {
        method: 'POST',
        isSigned: true,
        when: [{ path: 'type', values: ['verify'] }],
        challenge: { json: 'challenge' },
        reply: { json: { challenge: '{challenge}' } },
      },
    ]
    const body = '{"type":"verify","challenge":"a b"}'
    const signature = createHmac('sha256', secret).update(body).digest('hex')
    expect(answer(handshakes, callOf(body, { 'X-Sig': signature }))).toMatchObject({
      body: '{"challenge":"a b"}',
    })
    expect(answer(handshakes, callOf(body))).toEqual({ kind: 'refused', cause: 'signature_missing' })
    expect(answer(handshakes, callOf(body.replace('verify', 'event')))).toBeUndefined()
  })
})

import { describe, expect, test } from 'bun:test'
import { card, codehost, generic, storefront } from '../built-in/declarations.ts'
import { parseProvider } from './manifest.ts'

const scheme = {
  algorithm: 'hmac-sha256',
  signature: { header: 'sig' },
  encoding: 'hex',
  signs: '{body}',
}
const spec = {
  body: { bytesMax: 1024, json: {} },
  headers: { sig: { names: ['X-Sig'] } },
  signature: { schemes: [scheme] },
  event: { id: [{ json: 'id' }], type: { from: [{ json: 'type' }] } },
}
const manifest = (changed: object, name = 'acme') => ({
  apiVersion: 'latchkey.dev/v1alpha1',
  kind: 'Provider',
  metadata: { name },
  spec: { ...spec, ...changed },
})
const withScheme = (changed: object, more: object = {}) => ({
  ...more,
  signature: { schemes: [{ ...scheme, ...changed }] },
})
const handshake = (changed: object) => ({
  handshakes: [
    {
      method: 'GET',
      isSigned: false,
      challenge: { query: 'crc' },
      reply: { text: '{challenge}' },
      ...changed,
    },
  ],
})
const vector = { name: 'a', secrets: ['s'], at: '2026-11-26T09:00:00Z', headers: {}, expect: { type: 'a.b' } }
const time = { names: ['X-Time'] }
const twoHeaders = { headers: { ...spec.headers, time } }

function problemsOf(changed: object): string[] {
  const parsed = parseProvider(manifest(changed))
  return parsed.kind === 'ok' ? [] : parsed.problems.map(({ path, message }) => `${path} ${message}`)
}

test('parseProvider: accepts a minimal manifest, and takes the provider’s name from `metadata.name`', () => {
  expect(parseProvider(manifest({}))).toMatchObject({ kind: 'ok', declaration: { name: 'acme' } })
})

test.each([card, storefront, codehost, generic].map((each) => [each.name, each.declaration] as const))(
  'parseProvider: accepts the declaration of the built-in %s',
  (name, { name: declaredName, ...declared }) => {
    expect(declaredName).toBe(name)
    expect(parseProvider({ ...manifest({}, name), spec: declared })).toMatchObject({ kind: 'ok' })
  },
)

describe('rules', () => {
  test.each<[string, object, string]>([
    [
      'an unknown field',
      { sign: 1 },
      'spec.sign is not a field of a Provider: check its spelling and indentation',
    ],
    ['a body without a form', { body: { bytesMax: 1 } }, 'spec.body must contain json, form or both'],
    [
      'a body limit above 25 MiB',
      { body: { bytesMax: 30_000_000, json: {} } },
      'spec.body.bytesMax must be integer to be less or equal to 26214400',
    ],
    ['an alias that is the name', { aliases: ['acme'] }, 'spec.aliases has the name acme twice'],
    [
      'a header that is not used',
      twoHeaders,
      'spec.headers.time is not used: remove it, or name it where a value is read',
    ],
    [
      'a header name that occurs twice',
      { headers: { sig: { names: ['X-Sig', 'x-sig'] } } },
      'spec.headers has the name x-sig twice',
    ],
    [
      'an unknown header',
      withScheme({ signature: { header: 'other' } }),
      'spec.signature.schemes[0].signature.header names a header that is not in headers: known are sig',
    ],
    [
      'two places of a signature',
      withScheme({ signature: { header: 'sig', query: 's' } }),
      'spec.signature.schemes[0].signature must have exactly one of header, query, json: it has header and query',
    ],
    [
      'an unknown algorithm',
      withScheme({ algorithm: 'hmac-md5' }),
      'spec.signature.schemes[0].algorithm must be one of hmac-sha1,',
    ],
    [
      'an HMAC without encoding',
      withScheme({ encoding: undefined }),
      'spec.signature.schemes[0].encoding is required by hmac-sha256',
    ],
    [
      'a token with a template',
      { ...withScheme({ algorithm: 'token', encoding: undefined }) },
      'spec.signature.schemes[0].signs does not belong to token: remove it',
    ],
    [
      'an unknown variable',
      withScheme({ signs: '{bdy}' }),
      'spec.signature.schemes[0].signs has an unknown variable {bdy}: allowed are {body}, {timestamp},',
    ],
    [
      'an open brace',
      withScheme({ signs: '{body' }),
      'spec.signature.schemes[0].signs has a { without its }; write {{ for a brace',
    ],
    [
      '{timestamp} without a time',
      withScheme({ signs: '{timestamp}{body}' }),
      'spec.signature.schemes[0].signs has {timestamp}, but there is no timestamp here: add it to the scheme',
    ],
    [
      '{id} without a header',
      withScheme({ signs: '{id}{body}' }),
      'spec.signature.schemes[0].signs has {id}, but event.id[0] is not a header',
    ],
    [
      '{form:sorted} without forms',
      withScheme({ signs: '{form:sorted}' }),
      'spec.signature.schemes[0].signs has {form:sorted}, but body has no form',
    ],
    [
      'two bodies',
      withScheme({ signs: '{body}{body}' }),
      'spec.signature.schemes[0].signs must have at most one of {body} and {form:sorted}, once',
    ],
    [
      'a tolerance without a time',
      withScheme({ toleranceSeconds: 60 }),
      'spec.signature.schemes[0].toleranceSeconds needs timestamp',
    ],
    [
      'a time that is not signed',
      withScheme({ timestamp: { header: 'time', unit: 's' } }, twoHeaders),
      'spec.signature.schemes[0].timestamp is not signed',
    ],
    [
      'a time in pairs without pairs',
      withScheme({ signs: '{timestamp}{body}', timestamp: { pair: 't', unit: 's' } }),
      'spec.signature.schemes[0].timestamp.pair needs signature.pairs',
    ],
    [
      'a public key for an HMAC',
      withScheme({ key: { format: 'pem' } }),
      'spec.signature.schemes[0].key.format does not belong to hmac-sha256, whose key is a secret',
    ],
    [
      'no key format for Ed25519',
      withScheme({ algorithm: 'ed25519' }),
      'spec.signature.schemes[0].key must have exactly one of format and jwksUrl: ed25519 needs a public key',
    ],
    [
      'a raw key without decoding',
      withScheme({ algorithm: 'ed25519', key: { format: 'raw' } }),
      'spec.signature.schemes[0].key.decode is required by format raw',
    ],
    [
      'a JWT that mixes secrets and public keys',
      {
        ...withScheme({
          algorithm: 'jwt',
          encoding: undefined,
          signs: undefined,
          jwtAlgorithms: ['HS256', 'RS256'],
          key: { format: 'pem' },
        }),
      },
      'spec.signature.schemes[0].jwtAlgorithms must not mix HS256, HS384 or HS512 with algorithms of public keys',
    ],
    [
      'a body that is not signed',
      withScheme({ signs: '{url}' }),
      'spec.signature.bodyUnsigned must be true, because signature.schemes[0] does not cover the body',
    ],
    [
      'bodyUnsigned with a signed body',
      { signature: { schemes: [scheme], bodyUnsigned: true } },
      'spec.signature.bodyUnsigned must be removed: every scheme covers the body',
    ],
    [
      'a scheme that is never chosen',
      { signature: { schemes: [scheme, scheme] } },
      'spec.signature.schemes[1] is never chosen',
    ],
    [
      'a header with the id behind a path',
      { ...twoHeaders, event: { ...spec.event, id: [{ json: 'id' }, { header: ['time'] }] } },
      'spec.event.id[1] must be first, because it is a header',
    ],
    [
      'a case that is never reached',
      {
        types: [
          { raw: 'a', type: 'a.b' },
          { raw: 'a', type: 'a.c' },
        ],
      },
      'spec.types[1] is never reached',
    ],
    [
      'a type that is not dotted',
      { types: [{ raw: 'a', type: 'A' }] },
      'spec.types[0].type must match ^[a-z0-9_]+',
    ],
    [
      '65 cases of a type',
      {
        types: Array.from({ length: 65 }, (_, at) => ({
          raw: 'a',
          type: 'a.b',
          when: [{ path: 'x', values: [at] }],
        })),
      },
      'spec.types[64] is over the maximum of 64 cases of a raw type',
    ],
    [
      'a condition without an expectation',
      { types: [{ raw: 'a', type: 'a.b', when: [{ path: 'x' }] }] },
      'spec.types[0].when[0] must have exactly one of values, isPresent: it has none',
    ],
    [
      'a GET handshake that reads the body',
      handshake({ challenge: { json: 'a' } }),
      'spec.handshakes[0] must not read the body, which a GET call has not',
    ],
    [
      'a POST handshake for every call',
      handshake({ method: 'POST', challenge: undefined, reply: {} }),
      'spec.handshakes[0] must have when or challenge, or every call would be a handshake',
    ],
    [
      'a HEAD handshake with an answer',
      handshake({ method: 'HEAD' }),
      'spec.handshakes[0].reply must be empty for HEAD',
    ],
    ...['Set-Cookie', 'location', 'content-type', 'Access-Control-Allow-Origin', 'x-accel-redirect'].map(
      (name): [string, object, string] => [
        `the header ${name} in the answer to a handshake`,
        handshake({ reply: { headers: { [name]: '{challenge}' } } }),
        `spec.handshakes[0].reply.headers.${name} is no header of an answer`,
      ],
    ),
    [
      'an HMAC that is not used',
      handshake({ hmac: { encoding: 'hex' } }),
      'spec.handshakes[0].reply does not use {hmac}',
    ],
    [
      'a challenge that the handshake lacks',
      handshake({ challenge: undefined }),
      'spec.handshakes[0].reply.text has {challenge}, but the handshake has no challenge',
    ],
    [
      'a cause that does not exist',
      { vectors: [{ ...vector, expect: { refused: 'no' } }] },
      'spec.vectors[0].expect.refused must be one of signature_missing,',
    ],
    [
      'a vector with an invalid time',
      { vectors: [{ ...vector, at: 'now' }] },
      'spec.vectors[0].at must be a time such as',
    ],
    ['two vectors with the same name', { vectors: [vector, vector] }, 'spec.vectors has the name a twice'],
  ])(
    'parseProvider: refuses %s, and the error names the field and the problem',
    (_what, changed, problem) => {
      const found = problemsOf(changed)
      expect(found.filter((each) => each.startsWith(problem))).toHaveLength(1)
    },
  )

  test('parseProvider: errors about a test vector do not contain the secrets of the vector', () => {
    const found = problemsOf({ vectors: [{ ...vector, secrets: ['hunter2'], at: 'x', expect: {} }] })
    expect(found).not.toBeEmpty()
    expect(found.join('\n')).not.toContain('hunter2')
  })
})

test.each(['X-Hook-Secret', 'WebHook-Allowed-Origin'])(
  'parseProvider: accepts the header %s in the answer to a handshake',
  (name) => {
    expect(problemsOf(handshake({ reply: { headers: { [name]: '{challenge}' } } }))).toEqual([])
  },
)

describe('signing oracles', () => {
  const hmac = { hmac: { encoding: 'hex' }, reply: { json: { token: '{hmac}' } } }
  const oracle = (changed: object, more: object = {}) =>
    problemsOf({ ...withScheme(changed), ...handshake(hmac), ...more }).filter((each) =>
      each.includes('signing oracle'),
    )

  test.each<[string, object, object, boolean]>([
    ['a JSON body', {}, {}, false],
    [
      'a form with the event in a field',
      {},
      { body: { bytesMax: 1, form: { jsonField: 'payload' } } },
      false,
    ],
    ['a URL', { signs: '{url}{sha256:body}' }, {}, false],
    ['a separator that no challenge has', { signs: '{query:a}:{sha256:body}' }, {}, false],
    ['a form body, which can be one word', {}, { body: { bytesMax: 1, form: {} } }, true],
    ['a hash of the body', { signs: '{sha256:body}' }, {}, true],
    ['a separator that a challenge can have', { signs: 'v0-{sha256:body}' }, {}, true],
  ])(
    'parseProvider: refuses an unsigned HMAC of a challenge beside signatures of %s only if the HMAC could sign an event',
    (_what, changed, more, isOracle) => {
      expect(oracle(changed, more)).toHaveLength(isOracle ? 1 : 0)
    },
  )
})

// JSON Web Tokens with keys that a vendor publishes. Each valid call is verified, and the invalid calls derived from it are refused.
import { describe, expect, test } from 'bun:test'
import { constants, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { ProviderCall } from '../provider.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'
import type { Declaration } from './schema.ts'
import { tamperedCalls } from './tamper.ts'
import { outcomeOf, runVectors } from './vectors.ts'

const nowMs = 1_790_000_000_000
const now = nowMs / 1000
const jwksUrl = 'https://keys.example.com/oauth2/v3/certs'
const url = 'https://hooks.example.com/v1/t/acme/webhooks/acme'
const body = '{"id":"evt_1","type":"order.paid"}'
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const otherRsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const smallRsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const ed25519 = generateKeyPairSync('ed25519')
const jwk = (key: KeyObject, more: object) => ({ ...key.export({ format: 'jwk' }), ...more })
const set = JSON.stringify({
  keys: [
    jwk(rsa.publicKey, { kid: 'rsa', use: 'sig' }),
    jwk(p256.publicKey, { kid: 'p256', alg: 'ES256' }),
    jwk(p384.publicKey, { kid: 'p384' }),
    jwk(ed25519.publicKey, { kid: 'ed' }),
    jwk(otherRsa.publicKey, { kid: 'encryption', use: 'enc' }),
    jwk(otherRsa.publicKey, { kid: 'rs512 only', alg: 'RS512' }),
    jwk(smallRsa.publicKey, { kid: 'small' }),
    { kty: 'EC', crv: 'P-256', kid: 'broken' },
    1,
  ],
})
const fetched = [{ url: jwksUrl, text: set }]
const secret = '{"account":"push@example.iam.example.com","audience":"https://audience.example"}'
const claims = {
  iss: 'https://accounts.example.com',
  aud: 'https://audience.example',
  email: 'push@example.iam.example.com',
  exp: now + 3600,
  iat: now,
}

const pss = (key: KeyObject) => ({
  key,
  padding: constants.RSA_PKCS1_PSS_PADDING,
  saltLength: constants.RSA_PSS_SALTLEN_DIGEST,
})
const signers: Readonly<Record<string, (text: Buffer) => Buffer>> = {
  RS256: (text) => sign('sha256', text, rsa.privateKey),
  RS384: (text) => sign('sha384', text, rsa.privateKey),
  RS512: (text) => sign('sha512', text, rsa.privateKey),
  PS256: (text) => sign('sha256', text, pss(rsa.privateKey)),
  PS384: (text) => sign('sha384', text, pss(rsa.privateKey)),
  PS512: (text) => sign('sha512', text, pss(rsa.privateKey)),
  ES256: (text) => sign('sha256', text, { key: p256.privateKey, dsaEncoding: 'ieee-p1363' }),
  ES384: (text) => sign('sha384', text, { key: p384.privateKey, dsaEncoding: 'ieee-p1363' }),
  EdDSA: (text) => sign(null, text, ed25519.privateKey),
}
const keyIds: Readonly<Record<string, string>> = { ES256: 'p256', ES384: 'p384', EdDSA: 'ed' }

function tokenOf(alg: string, payload: object = claims, header: object = {}, by = signers[alg]): string {
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const text = `${encode({ alg, kid: keyIds[alg] ?? 'rsa', ...header })}.${encode(payload)}`
  return `${text}.${(by ?? (() => Buffer.from('a')))(Buffer.from(text)).toString('base64url')}`
}

const requires = [
  { claim: 'iss', anyOf: ['https://accounts.example.com', 'accounts.example.com'] },
  { claim: 'aud', equals: '{secret:audience}' },
  { claim: 'email', equals: '{secret:account}' },
]

function parse(scheme: object, changed: object = {}) {
  return parseProvider({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Provider',
    metadata: { name: 'acme' },
    spec: {
      body: { bytesMax: 100_000, json: {} },
      headers: { sig: { names: ['Authorization'] } },
      signature: {
        ...(JSON.stringify(scheme).includes('{sha256:body}') ? {} : { bodyUnsigned: true }),
        schemes: [
          {
            algorithm: 'jwt',
            signature: { header: 'sig', prefix: 'Bearer ' },
            jwtAlgorithms: ['RS256', 'ES256'],
            key: { jwksUrl },
            requires,
            ...scheme,
          },
        ],
      },
      event: { id: [{ json: 'id' }], type: { from: [{ json: 'type' }] } },
      ...changed,
    },
  })
}

function declare(scheme: object = {}, changed: object = {}): Declaration {
  const parsed = parse(scheme, changed)
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.declaration
}

const callOf = (token: string, at = nowMs, address = url): ProviderCall => ({
  request: { method: 'POST', url: address },
  headers: new Headers({ Authorization: `Bearer ${token}` }),
  body: Buffer.from(body),
  settings: {},
  nowMs: at,
  signatureAgeMsMax: 300_000,
})

function outcome(declaration: Declaration, call: ProviderCall, secrets = [secret], served = fetched): string {
  const result = outcomeOf(compileDeclaration(declaration), call, { secrets, fetched: served })
  return result.kind === 'refused' ? result.cause : result.kind
}

describe('algorithms', () => {
  test.each(Object.keys(signers))('jwks: verifies %s, and refuses every altered copy of the call', (alg) => {
    const declaration = declare({ jwtAlgorithms: [alg] })
    const call = callOf(tokenOf(alg))
    expect(outcome(declaration, call, ['{"audience":"other"}', secret])).toBe('event')
    const derived = tamperedCalls(declaration, { call, secrets: [secret], fetched, isEvent: true })
    expect(derived.length).toBeGreaterThanOrEqual(8)
    const provider = compileDeclaration(declaration)
    const accepted = derived.filter((each) => outcomeOf(provider, each.call, each).kind !== 'refused')
    expect(accepted.map(({ change }) => change)).toEqual([])
  })
})

const by = (key: KeyObject) => (text: Buffer) => sign('sha256', text, key)

describe('refused tokens', () => {
  const declaration = declare()
  test.each<[string, string, string]>([
    ['without a signature', tokenOf('none'), 'scheme_unknown'],
    ['of an algorithm that is not declared', tokenOf('PS256'), 'scheme_unknown'],
    [
      'signed with the key set as a secret',
      tokenOf('HS256', claims, {}, (text) => createHmac('sha256', set).update(text).digest()),
      'scheme_unknown',
    ],
    ['that names a key of another type', tokenOf('RS256', claims, { kid: 'p256' }), 'signature_mismatch'],
    ['that names an unknown key', tokenOf('RS256', claims, { kid: 'new' }), 'signature_mismatch'],
    [
      'by a key for encryption',
      tokenOf('RS256', claims, { kid: 'encryption' }, by(otherRsa.privateKey)),
      'signature_mismatch',
    ],
    [
      'by a key that the set binds to another algorithm',
      tokenOf('RS256', claims, { kid: 'rs512 only' }, by(otherRsa.privateKey)),
      'signature_mismatch',
    ],
    [
      'by an RSA key below 2048 bits',
      tokenOf('RS256', claims, { kid: 'small' }, by(smallRsa.privateKey)),
      'signature_mismatch',
    ],
    ['of another issuer', tokenOf('RS256', { ...claims, iss: 'evil' }), 'signature_mismatch'],
    ['for another audience', tokenOf('RS256', { ...claims, aud: 'other' }), 'signature_mismatch'],
    ['of another account', tokenOf('RS256', { ...claims, email: 'evil@example.com' }), 'signature_mismatch'],
    ['without an audience', tokenOf('RS256', { ...claims, aud: undefined }), 'signature_mismatch'],
    ['without an expiry', tokenOf('RS256', { ...claims, exp: undefined }), 'timestamp_outside_window'],
    ['that has expired', tokenOf('RS256', { ...claims, exp: now - 61 }), 'timestamp_outside_window'],
    ['with a critical extension', tokenOf('RS256', claims, { crit: ['b64'] }), 'signature_malformed'],
    ['that is not a JSON Web Token', 'abc', 'signature_malformed'],
  ])('jwks: refuses a token %s', (_what, token, cause) => {
    expect(outcome(declaration, callOf(token))).toBe(cause)
  })

  test('jwks: refuses a call whose claims match parts of two secrets, but neither secret completely', () => {
    const first = '{"account":"push@example.iam.example.com","audience":"https://other.example"}'
    const second = '{"account":"other@example.com","audience":"https://audience.example"}'
    expect(outcome(declaration, callOf(tokenOf('RS256')), [first, second])).toBe('signature_mismatch')
  })

  test.each([
    ['is not a key set', '<html>Sign in</html>'],
    ['has no keys', '{"keys":[]}'],
    ['is a list', '[]'],
  ])('jwks: a call is refused while the fetched text %s', (_what, text) => {
    const served = [{ url: jwksUrl, text }]
    expect(outcome(declaration, callOf(tokenOf('RS256')), [secret], served)).toBe('signature_mismatch')
  })
})

test('jwks: claims are compared with the secret, the URL and the hash of the body, as the declaration requires', () => {
  const declaration = declare(
    {
      requires: [
        { claim: 'email', equals: '{secret}' },
        { claim: 'aud', equals: '{url}' },
        { claim: 'request_body_sha256', equals: '{sha256:body}' },
      ],
      toleranceSeconds: 300,
    },
    {},
  )
  const own = { ...claims, aud: [url, 'another'] }
  const hash = new Bun.CryptoHasher('sha256').update(body).digest('hex')
  const valid = tokenOf('ES256', { ...own, request_body_sha256: hash })
  const accounts = ['push@example.iam.example.com']
  expect(outcome(declaration, callOf(valid), accounts)).toBe('event')
  expect(outcome(declaration, callOf(valid, nowMs, `${url}2`), accounts)).toBe('signature_mismatch')
  expect(outcome(declaration, callOf(valid, nowMs + 301_000), accounts)).toBe('timestamp_outside_window')
  const other = tokenOf('ES256', { ...own, request_body_sha256: hash.replace(/./, 'g') })
  expect(outcome(declaration, callOf(other), accounts)).toBe('signature_mismatch')
})

describe('locating keys', () => {
  const provider = compileDeclaration(declare())
  const keys = provider.prepare([secret])
  test('jwks: locates a key by the URL in the declaration and the key id in the token', () => {
    expect(provider.locate?.(callOf(tokenOf('RS256')), keys)).toEqual({
      kind: 'located',
      source: 'jwks',
      url: jwksUrl,
      keyId: 'rsa',
    })
  })

  test('jwks: no key is fetched for a call without a token or with a token of another algorithm', () => {
    expect(provider.locate?.({ ...callOf(''), headers: new Headers() }, keys)).toBeUndefined()
    const refused = { kind: 'refused', cause: 'scheme_unknown' } as const
    expect(provider.locate?.(callOf(tokenOf('none')), keys)).toEqual(refused)
  })
})

describe('declarations', () => {
  test.each<[string, object, object, string]>([
    ['http', { key: { jwksUrl: 'http://keys.example.com/a' } }, {}, 'jwksUrl'],
    ['a port', { key: { jwksUrl: 'https://keys.example.com:8443/a' } }, {}, 'jwksUrl'],
    ['credentials', { key: { jwksUrl: 'https://a@keys.example.com/a' } }, {}, 'jwksUrl'],
    ['an address', { key: { jwksUrl: 'https://169.254.169.254/a' } }, {}, 'jwksUrl'],
    ['a host without a domain', { key: { jwksUrl: 'https://localhost/a' } }, {}, 'jwksUrl'],
    ['a query', { key: { jwksUrl: 'https://keys.example.com/a?b' } }, {}, 'jwksUrl'],
    ['an algorithm of secrets', { jwtAlgorithms: ['HS256'] }, {}, 'does not belong to jwt'],
    ['mixed algorithms', { jwtAlgorithms: ['HS256', 'RS256'] }, {}, 'must not mix'],
    ['no claim of the tenant', { requires: [{ claim: 'iss', equals: 'a' }] }, {}, '{secret}'],
    ['no claims', { requires: undefined }, {}, '{secret}'],
    ['two texts', { requires: [{ claim: 'iss', equals: '{secret}', anyOf: ['a', 'b'] }] }, {}, 'exactly one'],
  ])('jwks: a declaration with %s is invalid', (_what, scheme, changed, problem) => {
    expect(JSON.stringify(parse(scheme, changed))).toContain(problem)
  })

  test('jwks: a declaration is invalid if another of its schemes uses the secrets as keys', () => {
    const token = { algorithm: 'token', signature: { query: 'token' } }
    const jwt = declare().signature.schemes[0]
    const parsed = parse({}, { signature: { bodyUnsigned: true, schemes: [jwt, token] } })
    expect(JSON.stringify(parsed)).toContain('must not be beside a scheme whose secrets are keys')
  })

  test('template: `{secret}` is invalid except in a claim of a token signed with published keys', () => {
    const hmac = {
      algorithm: 'hmac-sha256',
      signature: { header: 'sig' },
      encoding: 'hex',
      signs: '{secret}{body}',
    }
    const parsed = parse({}, { signature: { schemes: [hmac] } })
    expect(JSON.stringify(parsed)).toContain('unknown variable {secret}')
  })

  test('vector: passes with the key set that it contains, and fails without a key set', () => {
    const vector = {
      name: 'paid',
      secrets: [secret],
      at: new Date(nowMs).toISOString(),
      body,
      headers: { Authorization: `Bearer ${tokenOf('RS256')}` },
      expect: { id: 'evt_1', type: 'acme.order.paid' },
    }
    expect(runVectors(declare({}, { vectors: [{ ...vector, fetched }] }))).toEqual([])
    expect(runVectors(declare({}, { vectors: [vector] }))).not.toEqual([])
  })
})

// Schemes with calls signed by node:crypto. Each call is verified, and the invalid calls derived from it are refused.
import { describe, expect, test } from 'bun:test'
import { createHash, createHmac, generateKeyPairSync, type KeyObject, sign } from 'node:crypto'
import type { ProviderCall } from '../provider.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'
import type { Declaration, Scheme } from './schema.ts'
import { tamperedCalls } from './tamper.ts'

const nowMs = 1_790_000_000_000
const seconds = '1790000000'
const body = '{"id":"evt_1","type":"order.paid","at":1790000000000,"text":"čeština"}'
const secret = 'a shared secret'
const url = 'https://hooks.example.com/v1/acme?source=test'

const hmac = (hash: string, text: string, key: string | Buffer = secret) => createHmac(hash, key).update(text)
const ed25519 = generateKeyPairSync('ed25519')
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' })
const p384 = generateKeyPairSync('ec', { namedCurve: 'P-384' })
const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 })
const smallRsa = generateKeyPairSync('rsa', { modulusLength: 1024 })
const pem = (key: KeyObject) => key.export({ format: 'pem', type: 'spki' })
const der = (key: KeyObject) => key.export({ format: 'der', type: 'spki' })
const jwk = (key: KeyObject, more: object = {}) =>
  JSON.stringify({ ...key.export({ format: 'jwk' }), ...more })

/** Declares a provider with the header keys `sig`, `time`, `id` and `more`, as far as it uses them. */
function declare(scheme: object, changed: object = {}): Declaration {
  const all = { sig: 'X-Sig', time: 'X-Time', id: 'X-Id', more: 'X-More' }
  const text = JSON.stringify([scheme, changed])
  const used = Object.entries(all).filter(
    ([key]) => text.includes(`"${key}"`) || new RegExp(`headers?:${key}}`).test(text),
  )
  const spec = {
    body: { bytesMax: 100_000, json: {} },
    headers: Object.fromEntries(used.map(([key, name]) => [key, { names: [name] }])),
    signature: { schemes: [scheme] },
    event: { id: [{ json: 'id' }], type: { from: [{ json: 'type' }] } },
    ...changed,
  }
  const metadata = { name: 'acme' }
  const parsed = parseProvider({ apiVersion: 'latchkey.dev/v1alpha1', kind: 'Provider', metadata, spec })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.declaration
}

function callOf(headers: Readonly<Record<string, string>>, text = body, address = url): ProviderCall {
  return {
    request: { method: 'POST', url: address },
    headers: new Headers(headers),
    body: Buffer.from(text),
    settings: {},
    nowMs,
    signatureAgeMsMax: 300_000,
  }
}

function verify(declaration: Declaration, call: ProviderCall, secrets: readonly string[]): string {
  const provider = compileDeclaration(declaration)
  const verification = provider.verify(call, provider.prepare(secrets))
  return verification.kind === 'refused' ? verification.cause : verification.kind
}

/** Verifies a call, and shows that each call derived from it is refused. */
function holds(declaration: Declaration, call: ProviderCall, secrets: readonly string[], changesMin: number) {
  expect(verify(declaration, call, secrets)).toBe('verified')
  const tampered = tamperedCalls(declaration, { call, secrets, isEvent: true })
  expect(tampered.length).toBeGreaterThanOrEqual(changesMin)
  const provider = compileDeclaration(declaration)
  const accepted = tampered.filter((each) => {
    const verification = provider.verify(each.call, provider.prepare(each.secrets))
    return verification.kind === 'verified' && provider.normalize(each.call).kind === 'event'
  })
  expect(accepted.map(({ change }) => change)).toEqual([])
}

const whole = { signature: { header: 'sig' }, encoding: 'hex', signs: '{body}' }

describe('algorithms', () => {
  test.each(['sha1', 'sha256', 'sha384', 'sha512'])(
    'scheme: verifies an HMAC by %s in each encoding',
    (hash) => {
      for (const encoding of ['hex', 'base64', 'base64url'] as const) {
        const declaration = declare({ ...whole, algorithm: `hmac-${hash}`, encoding })
        holds(declaration, callOf({ 'X-Sig': hmac(hash, body).digest(encoding) }), [secret], 8)
      }
    },
  )

  const timed = {
    signature: { header: 'sig' },
    encoding: 'base64',
    signs: '{timestamp}.{body}',
    timestamp: { header: 'time', unit: 's' },
  }
  const content = Buffer.from(`${seconds}.${body}`)
  test.each<[string, object, KeyObject, string, (key: KeyObject) => Buffer, KeyObject]>([
    [
      'Ed25519, raw key in hex',
      { algorithm: 'ed25519', key: { format: 'raw', decode: 'hex' } },
      ed25519.publicKey,
      der(ed25519.publicKey).subarray(12).toString('hex'),
      (key) => sign(null, content, key),
      ed25519.privateKey,
    ],
    [
      'Ed25519, PEM',
      { algorithm: 'ed25519', key: { format: 'pem' } },
      ed25519.publicKey,
      pem(ed25519.publicKey),
      (key) => sign(null, content, key),
      ed25519.privateKey,
    ],
    [
      'ECDSA P-256 in DER, DER key',
      { algorithm: 'ecdsa-p256-sha256', key: { format: 'der', decode: 'base64' } },
      p256.publicKey,
      der(p256.publicKey).toString('base64'),
      (key) => sign('sha256', content, key),
      p256.privateKey,
    ],
    [
      'ECDSA P-256 in P1363, raw key',
      { algorithm: 'ecdsa-p256-sha256', ecdsaForm: 'p1363', key: { format: 'raw', decode: 'base64url' } },
      p256.publicKey,
      der(p256.publicKey).subarray(26).toString('base64url'),
      (key) => sign('sha256', content, { key, dsaEncoding: 'ieee-p1363' }),
      p256.privateKey,
    ],
    [
      'ECDSA P-384, JWK',
      { algorithm: 'ecdsa-p384-sha384', key: { format: 'jwk' } },
      p384.publicKey,
      jwk(p384.publicKey),
      (key) => sign('sha384', content, key),
      p384.privateKey,
    ],
    [
      'RSA PKCS#1',
      { algorithm: 'rsa-pkcs1-sha256', key: { format: 'pem' } },
      rsa.publicKey,
      pem(rsa.publicKey),
      (key) => sign('sha256', content, key),
      rsa.privateKey,
    ],
    [
      'RSA PKCS#1 by SHA-512',
      { algorithm: 'rsa-pkcs1-sha512', key: { format: 'pem' } },
      rsa.publicKey,
      pem(rsa.publicKey),
      (key) => sign('sha512', content, key),
      rsa.privateKey,
    ],
    [
      'RSA PSS',
      { algorithm: 'rsa-pss-sha256', key: { format: 'pem' } },
      rsa.publicKey,
      pem(rsa.publicKey),
      (key) => sign('sha256', content, { key, padding: 6, saltLength: 32 }),
      rsa.privateKey,
    ],
  ])('scheme: verifies %s', (_what, more, _key, publicKey, signBy, privateKey) => {
    const declaration = declare({ ...timed, ...more })
    const call = callOf({ 'X-Sig': signBy(privateKey).toString('base64'), 'X-Time': seconds })
    holds(declaration, call, [publicKey], 10)
    expect(verify(declaration, call, ['no key', publicKey])).toBe('verified')
    expect(verify(declaration, call, [])).toBe('signature_mismatch')
  })

  test('scheme: no signature is valid under a public key of another type or below 2048 bits', () => {
    const declaration = declare({ ...timed, algorithm: 'rsa-pkcs1-sha256', key: { format: 'pem' } })
    const call = callOf({
      'X-Sig': sign('sha256', content, smallRsa.privateKey).toString('base64'),
      'X-Time': seconds,
    })
    for (const key of [smallRsa, p256, ed25519]) {
      expect(verify(declaration, call, [pem(key.publicKey)])).toBe('signature_mismatch')
    }
  })

  test('scheme: compares a token and basic credentials with each of the secrets', () => {
    const token = declare(
      { algorithm: 'token', signature: { header: 'sig', prefix: 'Bearer ' } },
      {
        signature: {
          bodyUnsigned: true,
          schemes: [{ algorithm: 'token', signature: { header: 'sig', prefix: 'Bearer ' } }],
        },
      },
    )
    holds(token, callOf({ 'X-Sig': `Bearer ${secret}` }), ['other', secret], 3)
    expect(verify(token, callOf({ 'X-Sig': secret }), [secret])).toBe('signature_malformed')
    const basic = declare(
      {},
      { signature: { bodyUnsigned: true, schemes: [{ algorithm: 'basic', signature: { header: 'sig' } }] } },
    )
    const credentials = Buffer.from('user:pass').toString('base64')
    holds(basic, callOf({ 'X-Sig': `Basic ${credentials}` }), ['user:pass'], 3)
    expect(verify(basic, callOf({ 'X-Sig': credentials }), ['user:pass'])).toBe('signature_malformed')
    expect(verify(basic, callOf({ 'X-Sig': 'Basic Og==' }), [''])).toBe('signature_mismatch')
  })
})

describe('JSON Web Tokens', () => {
  const hash = createHash('sha256').update(body).digest('hex')
  const claims = {
    iss: 'acme',
    aud: ['hooks', 'other'],
    iat: nowMs / 1000,
    exp: nowMs / 1000 + 60,
    sha256: hash,
  }
  const encode = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const tokenOf = (
    alg: string,
    by: (text: Buffer) => Buffer,
    payload: object = claims,
    header: object = {},
  ) => {
    const text = `${encode({ alg, typ: 'JWT', ...header })}.${encode(payload)}`
    return `${text}.${by(Buffer.from(text)).toString('base64url')}`
  }
  const es256 = (text: Buffer) => sign('sha256', text, { key: p256.privateKey, dsaEncoding: 'ieee-p1363' })
  const requires = [
    { claim: 'sha256', equals: '{sha256:body}' },
    { claim: 'aud', equals: 'hooks' },
  ]
  const jwt = {
    algorithm: 'jwt',
    signature: { header: 'sig', prefix: 'Bearer ' },
    toleranceSeconds: 300,
    requires,
  }
  const byKey = declare({
    ...jwt,
    jwtAlgorithms: ['ES256', 'RS256', 'EdDSA'],
    key: { format: 'jwk' },
  })
  const set = `{"keys":[${jwk(rsa.publicKey, { kid: 'r' })},${jwk(p256.publicKey, { kid: 'e' })},${jwk(ed25519.publicKey)}]}`
  const call = (token: string) => callOf({ 'X-Sig': `Bearer ${token}` })

  test('scheme: verifies a JSON Web Token with the key that has its key id in a set, and with a shared secret', () => {
    holds(byKey, call(tokenOf('ES256', es256, claims, { kid: 'e' })), [set], 9)
    holds(byKey, call(tokenOf('RS256', (text) => sign('sha256', text, rsa.privateKey))), [set], 9)
    holds(byKey, call(tokenOf('EdDSA', (text) => sign(null, text, ed25519.privateKey))), [set], 9)
    const byHs = (text: Buffer) => createHmac('sha256', secret).update(text).digest()
    holds(declare({ ...jwt, jwtAlgorithms: ['HS256'] }), call(tokenOf('HS256', byHs)), [secret], 9)
  })

  test.each<[string, string, string]>([
    ['without a signature', tokenOf('none', () => Buffer.from('a')), 'scheme_unknown'],
    [
      'signed with the public key as a secret',
      tokenOf('HS256', (text) => createHmac('sha256', pem(p256.publicKey)).update(text).digest()),
      'scheme_unknown',
    ],
    ['of another key', tokenOf('ES256', es256, claims, { kid: 'r' }), 'signature_mismatch'],
    ['with a critical extension', tokenOf('ES256', es256, claims, { crit: ['b64'] }), 'signature_malformed'],
    ['with four parts', `${tokenOf('ES256', es256)}.a`, 'signature_malformed'],
    ['for another audience', tokenOf('ES256', es256, { ...claims, aud: 'other' }), 'signature_mismatch'],
    ['without the hash', tokenOf('ES256', es256, { ...claims, sha256: '' }), 'signature_mismatch'],
    [
      'that has expired',
      tokenOf('ES256', es256, { ...claims, exp: nowMs / 1000 - 61 }),
      'timestamp_outside_window',
    ],
    [
      'that is not valid yet',
      tokenOf('ES256', es256, { ...claims, nbf: nowMs / 1000 + 61 }),
      'timestamp_outside_window',
    ],
    [
      'with an expiry that is not a number',
      tokenOf('ES256', es256, { ...claims, exp: 'never' }),
      'timestamp_outside_window',
    ],
    [
      'that was issued long ago',
      tokenOf('ES256', es256, { ...claims, iat: nowMs / 1000 - 301 }),
      'timestamp_outside_window',
    ],
    ['without its time', tokenOf('ES256', es256, { ...claims, iat: undefined }), 'timestamp_outside_window'],
  ])('scheme: refuses a token %s', (_what, token, cause) => {
    expect(verify(byKey, call(token), [set])).toBe(cause)
  })
})

describe('forms of a signature', () => {
  const v1 = (text: string) => hmac('sha256', text).digest('hex')
  const form = (signature: object, more: Partial<Scheme> = {}) =>
    declare({
      algorithm: 'hmac-sha256',
      encoding: 'hex',
      signs: '{body}',
      signature: { header: 'sig', ...signature },
      ...more,
    })

  test('scheme: in a header of pairs without a time, a repeated signature is malformed, because a header sent twice would look the same', () => {
    const declaration = form({ pairs: { separator: ',', assign: '=', name: 'v1' } })
    holds(declaration, callOf({ 'X-Sig': `v1=${'a'.repeat(64)},v1=${v1(body)}` }), [secret], 8)
    expect(verify(declaration, callOf({ 'X-Sig': `v1=${v1(body)},v1=${v1(body)}` }), [secret])).toBe(
      'signature_malformed',
    )
    expect(verify(declaration, callOf({ 'X-Sig': 'v1=' }), [secret])).toBe('signature_malformed')
    expect(verify(declaration, callOf({ 'X-Sig': `v2=${v1(body)}` }), [secret])).toBe('scheme_unknown')
  })

  test('scheme: in a header of pairs, a base64 signature may end in `=`, which also separates names and values', () => {
    const declaration = declare({
      algorithm: 'hmac-sha256',
      encoding: 'base64',
      signs: '{timestamp}.{body}',
      timestamp: { pair: 't', unit: 'ms' },
      signature: { header: 'sig', pairs: { separator: ',', assign: '=', name: 'v1' } },
    })
    const digest = hmac('sha256', `${nowMs}.${body}`).digest('base64')
    holds(declaration, callOf({ 'X-Sig': `t=${nowMs},v1=${digest}` }), [secret], 10)
    expect(verify(declaration, callOf({ 'X-Sig': `t=${nowMs},v1=a=${digest}` }), [secret])).toBe(
      'signature_malformed',
    )
  })

  test('scheme: in a header with a list, the time is the first item, and every other item must be a signature', () => {
    const declaration = form(
      { list: { separator: ',' } },
      { signs: '{timestamp}.{body}', timestamp: { listFirst: true, unit: 'ms' } },
    )
    const digest = v1(`${nowMs}.${body}`)
    holds(declaration, callOf({ 'X-Sig': `${nowMs},${'a'.repeat(64)},${digest}` }), [secret], 9)
    for (const value of [`${nowMs}`, `${nowMs},${digest},x`, `${digest},${nowMs}`]) {
      expect(verify(declaration, callOf({ 'X-Sig': value }), [secret])).toBe('signature_malformed')
    }
  })

  test('scheme: if several headers can contain the signature, one valid signature is enough', () => {
    const declaration = form({ moreHeaders: ['more'] })
    holds(declaration, callOf({ 'X-Sig': 'a'.repeat(64), 'X-More': v1(body) }), [secret], 6)
    expect(verify(declaration, callOf({ 'X-More': v1(body) }), [secret])).toBe('signature_missing')
  })

  test('scheme: a signature header of more than 4096 characters is malformed', () => {
    const declaration = form({ pairs: { separator: ';', assign: '=', name: 'v1' } })
    const long = `v1=${v1(body)}${';v0=a'.repeat(1000)}`
    expect(verify(declaration, callOf({ 'X-Sig': long }), [secret])).toBe('signature_malformed')
    expect(verify(form({}), callOf({ 'X-Sig': 'a'.repeat(5000) }), [secret])).toBe('signature_malformed')
  })

  test('scheme: a call with only a signature of an older scheme is refused as `scheme_unknown`', () => {
    const declaration = form({ prefix: 'sha256=', olderHeaders: ['X-Old'] })
    holds(declaration, callOf({ 'X-Sig': `sha256=${v1(body)}`, 'X-Old': 'sha1=a' }), [secret], 8)
    expect(verify(declaration, callOf({ 'X-Old': 'sha1=a' }), [secret])).toBe('scheme_unknown')
    expect(verify(declaration, callOf({ 'X-Sig': 'sha1=a' }), [secret])).toBe('scheme_unknown')
    expect(compileDeclaration(declaration).secretHeaders).toEqual(['x-sig', 'x-old'])
  })
})

describe('signed content', () => {
  test.each<[string, string, string]>([
    [
      'method, path and a hash',
      '{method}\n{path}\n{sha256:body}',
      `POST\n/v1/acme\n${createHash('sha256').update(body).digest('hex')}`,
    ],
    ['the URL and the body', '{url}{body}', url + body],
    ['a query parameter and braces', '{query:source}{{{body}', `test{${body}`],
    ['members of the body', '{json:id}:{json:at}:{json:missing}:{body}', `evt_1:1790000000000::${body}`],
  ])('scheme: verifies a signature over %s', (_what, signs, content) => {
    const declaration = declare({ ...whole, algorithm: 'hmac-sha256', signs })
    holds(declaration, callOf({ 'X-Sig': hmac('sha256', content).digest('hex') }), [secret], 8)
  })

  test('scheme: without a request, a signature over the URL is refused', () => {
    const declaration = declare({ ...whole, algorithm: 'hmac-sha256', signs: '{url}{body}' })
    const { request: _, ...call } = callOf({ 'X-Sig': hmac('sha256', url + body).digest('hex') })
    expect(verify(declaration, call, [secret])).toBe('signature_malformed')
  })

  test('scheme: a call without its signed id header is refused', () => {
    const event = { id: [{ header: ['id'] }], type: { from: [{ json: 'type' }] } }
    const declaration = declare({ ...whole, algorithm: 'hmac-sha256', signs: '{id}.{body}' }, { event })
    const sig = hmac('sha256', `a.${body}`).digest('hex')
    holds(declaration, callOf({ 'X-Sig': sig, 'X-Id': 'a' }), [secret], 9)
    expect(verify(declaration, callOf({ 'X-Sig': sig }), [secret])).toBe('event_id_missing')
  })

  test('scheme: the signature, its time and the signed values can be members of the body', () => {
    const scheme = {
      algorithm: 'hmac-sha256',
      encoding: 'hex',
      signature: { json: 'signature.value' },
      signs: '{json:signature.time}{json:signature.token}',
      timestamp: { json: 'signature.time', unit: 's' },
    }
    const declaration = declare({}, { signature: { bodyUnsigned: true, schemes: [scheme] } })
    const text = JSON.stringify({
      id: 'a',
      type: 'b',
      signature: { time: seconds, token: 'x', value: hmac('sha256', `${seconds}x`).digest('hex') },
    })
    holds(declaration, callOf({}, text), [secret], 5)
    expect(verify(declaration, callOf({}, 'no JSON'), [secret])).toBe('signature_missing')
  })

  test('scheme: a signed hash in the URL covers the body, and this scheme applies only to a URL with a hash', () => {
    const hash = createHash('sha256').update(body).digest('hex')
    const schemes = [
      {
        ...whole,
        algorithm: 'hmac-sha256',
        signs: '{url}',
        when: { query: 'hash' },
        requires: [{ query: 'hash', equals: '{sha256:body}' }],
      },
      { ...whole, algorithm: 'hmac-sha256', signs: '{url}{body}' },
    ]
    const declaration = declare({}, { signature: { schemes }, headers: { sig: { names: ['X-Sig'] } } })
    const address = `${url}&hash=${hash}`
    holds(declaration, callOf({ 'X-Sig': hmac('sha256', address).digest('hex') }, body, address), [secret], 8)
    holds(declaration, callOf({ 'X-Sig': hmac('sha256', url + body).digest('hex') }), [secret], 8)
    const twice = `${address}&hash=${hash}`
    expect(
      verify(declaration, callOf({ 'X-Sig': hmac('sha256', twice).digest('hex') }, body, twice), [secret]),
    ).not.toBe('verified')
  })
})

describe('listed headers', () => {
  const declaration = declare({
    algorithm: 'hmac-sha256',
    signature: { header: 'sig' },
    encoding: 'hex',
    signs: '{method} {headers:more} {body}',
    timestamp: { header: 'time', unit: 's' },
  })
  const signed = (list: string, lines: string) => ({
    'X-Time': seconds,
    'X-More': list,
    'X-Other': ' b ',
    'X-Sig': hmac('sha256', `POST ${lines} ${body}`).digest('hex'),
  })

  test('scheme: the signature covers the headers that a header lists, sorted by name, whatever the order of the list', () => {
    const lines = `x-other:b;x-time:${seconds}`
    holds(declaration, callOf(signed('x-other,x-time', lines)), [secret], 8)
    holds(declaration, callOf(signed('X-Time, X-Other', lines)), [secret], 8)
  })

  test.each([
    ['that lacks the header with the time', 'x-other', 'x-other:b'],
    ['with a header that the call lacks', 'x-time,x-gone', `x-gone:;x-time:${seconds}`],
    ['with an invalid name', 'x-time,x y', `x y:;x-time:${seconds}`],
    [
      'of 33 headers',
      ['x-time', ...Array.from({ length: 32 }, (_, number) => `x-${number}`)].join(),
      `x-time:${seconds}`,
    ],
  ])('scheme: a list of signed headers %s is malformed', (_what, list, lines) => {
    expect(verify(declaration, callOf(signed(list, lines)), [secret])).toBe('signature_malformed')
  })
})

// Tests that an adapter never throws or exceeds its bound on work, whatever the valid declaration and the call.
import { expect, test } from 'bun:test'
import { generateKeyPairSync } from 'node:crypto'
import fc from 'fast-check'
import { type CallHeaders, type ProviderCall, refusalCauses } from '../provider.ts'
import { workMax } from './call.ts'
import { compileDeclaration } from './compile.ts'
import { parseProvider } from './manifest.ts'
import { algorithms, type Declaration, jwtAlgorithms } from './schema.ts'

const seed = Number(process.env['TEST_SEED'] ?? Date.now() % 1_000_000)
/** Seed of a second run, which reaches the ends of all paths. */
const coveringSeed = 1
const optional = <T>(value: fc.Arbitrary<T>) => fc.option(value, { nil: undefined, freq: 2 })
const path = fc.constantFrom('id', 'a.b', 'a.0.b', 'list.1', 'type', '__proto__.x', 'length')
const unit = fc.constantFrom('s', 'ms', 'iso')
const headerKey = fc.constantFrom('sig', 'time', 'id', 'type', 'more')
/** Template of the parts that a call always has, and of others that a declaration may lack what they need for. */
const template = (...parts: readonly string[]) =>
  fc
    .tuple(
      fc.subarray([
        '{url}',
        '{path}',
        '{method}',
        '{header:type}',
        '{headers:more}',
        '{query:q}',
        '{json:a.b}',
        '{json:list}',
        '.',
        'v0:',
        '{{',
        ...parts,
      ]),
      fc.constantFrom('{body}', '{sha256:body}', '{form:sorted}', '{body}', ''),
    )
    .map(([before, after]) => `${before.join('')}${after}`)
    .filter((text) => text !== '')
const timeless = template()

const decoding = fc.constantFrom('hex', 'base64', 'base64url')
const secretKey = fc.constantFrom(
  undefined,
  { prefix: 'whsec_', decode: 'base64', bytesMin: 24, orText: true },
  { decode: 'hex' },
  { decode: 'base64url', bytesMin: 1 },
)
const publicKey = fc.constantFrom(
  { format: 'pem' },
  { format: 'jwk' },
  { format: 'raw', decode: 'hex' },
  { format: 'der', decode: 'base64' },
)
const plainPlace = fc.constantFrom<object>(
  { header: 'sig' },
  { query: 'q' },
  { json: 'a.b' },
  { header: 'sig', prefix: 'Bearer ' },
  { header: 'sig', olderHeaders: ['x-older'] },
)
const pairs = fc.record({
  header: fc.constant('sig'),
  pairs: fc.record({
    separator: fc.constantFrom(',', ' ', ';', '&&'),
    assign: fc.constantFrom('=', ':'),
    name: fc.constantFrom('v1', 'h1'),
    emptyValues: fc.boolean(),
  }),
  moreHeaders: optional(fc.constant(['more'])),
})
/** Places of a signature, each with the places of a time that fit it. */
const signed = fc.oneof(
  plainPlace.map((signature) => ({ signature })),
  fc
    .tuple(plainPlace, unit)
    .map(([signature, form]) => ({ signature, timestamp: { header: 'time', unit: form } })),
  fc
    .tuple(plainPlace, unit, path)
    .map(([signature, form, json]) => ({ signature, timestamp: { json, unit: form } })),
  pairs.map((signature) => ({ signature })),
  fc.tuple(pairs, unit).map(([signature, form]) => ({ signature, timestamp: { pair: 't', unit: form } })),
  fc.constant({
    signature: { header: 'sig', list: { separator: ',' } },
    timestamp: { listFirst: true, unit: 's' },
  }),
)
const requires = (name: string) =>
  optional(
    fc.array(
      timeless.map((equals) => ({ [name]: name === 'query' ? 'q' : 'type', equals })),
      { minLength: 1, maxLength: 8 },
    ),
  )

const scheme = fc.oneof(
  fc
    .tuple(
      fc.constantFrom(...algorithms.filter((name) => name.startsWith('hmac'))),
      signed,
      decoding,
      template('{timestamp}'),
      timeless,
      secretKey,
      requires('query'),
    )
    .map(([algorithm, form, encoding, timed, plain, key, required]) => ({
      algorithm,
      ...form,
      encoding,
      signs: 'timestamp' in form ? `{timestamp}${timed.replace('{timestamp}', '')}` : plain,
      key,
      requires: required,
    })),
  fc
    .tuple(
      fc.constantFrom(...algorithms.filter((name) => /^(ed|ec|rsa)/.test(name))),
      signed,
      decoding,
      timeless,
      publicKey,
    )
    .map(([algorithm, form, encoding, plain, key]) => ({
      algorithm,
      ...form,
      encoding,
      signs: 'timestamp' in form ? `{timestamp}${plain}` : plain,
      key,
    })),
  fc
    .tuple(fc.constantFrom('token', 'basic'), plainPlace, secretKey, requires('header'))
    .map(([algorithm, signature, key, required]) => ({ algorithm, signature, key, requires: required })),
  fc
    .tuple(
      plainPlace,
      fc.subarray(jwtAlgorithms.slice(3, 9), { minLength: 1, maxLength: 4 }),
      publicKey,
      requires('claim'),
      optional(fc.constant(300)),
    )
    .map(([signature, names, key, required, toleranceSeconds]) => ({
      algorithm: 'jwt',
      signature,
      jwtAlgorithms: names,
      key,
      requires: required,
      toleranceSeconds,
    })),
  fc
    .tuple(
      plainPlace,
      fc.subarray(jwtAlgorithms.slice(3), { minLength: 1, maxLength: 6 }),
      fc.constantFrom(
        { equals: '{secret}' },
        { equals: 'a{secret:account}' },
        { anyOf: ['{secret}', '{secret:a}{url}'] },
      ),
      optional(fc.constant(300)),
    )
    .map(([signature, names, text, toleranceSeconds]) => ({
      algorithm: 'jwt',
      signature,
      jwtAlgorithms: names,
      key: { jwksUrl: 'https://keys.example.com/jwks' },
      requires: [{ claim: 'aud', ...text }],
      toleranceSeconds,
    })),
  fc.tuple(plainPlace, requires('claim')).map(([signature, required]) => ({
    algorithm: 'jwt',
    signature,
    jwtAlgorithms: ['HS256', 'HS512'],
    requires: required,
  })),
)

const place = fc.oneof(fc.record({ header: headerKey }), fc.record({ json: path }))
const condition = fc.oneof(
  fc.record({
    path,
    values: fc.array(fc.oneof(fc.string(), fc.integer(), fc.boolean()), { minLength: 1, maxLength: 3 }),
  }),
  fc.record({ path, isPresent: fc.boolean() }),
)
const event = fc.record({
  id: fc.oneof(
    fc.constant([{ header: ['id'] }]),
    fc.record({ json: path, integer: fc.boolean() }).map((each) => [{ header: ['id', 'more'] }, each]),
    fc.record({ json: path, hash: timeless }).map(({ json, hash }) => [{ json }, { hash }]),
    timeless.map((hash) => [{ hash: `{receivedAt}${hash}` }]),
  ),
  type: fc.record({
    from: fc.array(fc.oneof(place, fc.constant({ text: 'callback' })), { minLength: 1, maxLength: 3 }),
    action: optional(
      fc
        .tuple(place, fc.constantFrom('.', '/'), fc.constantFrom('raw', 'unlisted'))
        .map(([at, separator, joins]) => ({ ...at, separator, joins })),
    ),
    keepsDotted: optional(fc.boolean()),
  }),
  occurredAt: optional(
    fc.array(
      fc.tuple(place, unit).map(([at, form]) => ({ ...at, unit: form })),
      { minLength: 1, maxLength: 3 },
    ),
  ),
})
const handshake = fc.record({
  method: fc.constantFrom('GET', 'HEAD', 'POST'),
  when: optional(fc.array(condition, { minLength: 1, maxLength: 3 })),
  isSigned: fc.constantFrom(false, false, false, true),
  challenge: optional(fc.oneof(place, fc.constant({ query: 'q' }))),
  hmac: optional(fc.constant({ encoding: 'hex' })),
  reply: fc.constantFrom<object>(
    {},
    { text: '{challenge}' },
    { text: '{hmac}' },
    { json: { a: '{challenge}', b: '{hmac}', c: 1 } },
    { status: 204 },
    { headers: { 'x-answer': '{challenge}' } },
  ),
})

const headers = Object.fromEntries(
  ['sig', 'time', 'id', 'type', 'more'].map((key) => [key, { names: [`x-${key}`] }]),
)
const spec = fc.record({
  body: fc.constantFrom<object>(
    { bytesMax: 100_000, json: {} },
    { bytesMax: 100_000, json: { arrayAs: 'events' }, form: {} },
    { bytesMax: 100_000, json: {}, form: { jsonField: 'payload' } },
    { bytesMax: 100_000, form: {} },
  ),
  schemes: fc.array(scheme, { minLength: 1, maxLength: 2 }),
  event,
  types: optional(
    fc.array(
      fc.record({
        raw: fc.constantFrom('a', 'b', 'unknown'),
        type: fc.constant('a.b'),
        when: fc.array(condition, { minLength: 1, maxLength: 2 }),
      }),
      { maxLength: 3 },
    ),
  ),
  handshakes: optional(fc.array(handshake, { minLength: 1, maxLength: 2 })),
})

const snsScheme = { algorithm: 'aws-sns', signature: { json: 'Signature' }, toleranceSeconds: 7200 }
const snsSpec = spec.map((each) => ({
  ...each,
  body: { bytesMax: 100_000, json: {} },
  schemes: [snsScheme],
}))

/** Returns the declaration if it is valid with the headers that it uses, and with or without `bodyUnsigned`. */
function validated({ schemes, ...rest }: { readonly schemes: readonly unknown[] }): Declaration | undefined {
  const parsedWith = (used: object, bodyUnsigned?: true) => {
    const manifest = {
      apiVersion: 'latchkey.dev/v1alpha1',
      kind: 'Provider',
      metadata: { name: 'fuzzed' },
      spec: { ...rest, headers: used, signature: { schemes, bodyUnsigned } },
    }
    return parseProvider(JSON.parse(JSON.stringify(manifest)))
  }
  const first = parsedWith(headers)
  if (first.kind === 'ok') return first.declaration
  const unused = first.problems
    .filter(({ message }) => message.startsWith('is not used'))
    .map(({ path: at }) => at)
  const used = Object.fromEntries(
    Object.entries(headers).filter(([key]) => !unused.includes(`spec.headers.${key}`)),
  )
  const second = parsedWith(used)
  const last = second.kind === 'ok' ? second : parsedWith(used, true)
  return last.kind === 'ok' ? last.declaration : undefined
}

const ed25519 = generateKeyPairSync('ed25519').publicKey
const p256 = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey
const topic = 'arn:aws:sns:us-west-2:123456789012:T'
const secrets: readonly string[] = [
  topic,
  '{"account":"a"}',
  `whsec_${Buffer.alloc(24, 1).toString('base64')}`,
  '',
  ed25519.export({ format: 'der', type: 'spki' }).subarray(12).toString('hex'),
  p256.export({ format: 'pem', type: 'spki' }),
  JSON.stringify({
    keys: [p256.export({ format: 'jwk' }), ed25519.export({ format: 'jwk' }), 1, { kty: 'EC' }],
  }),
]

const publishedKeys: Partial<ProviderCall> = {
  published: {
    source: 'jwks',
    text: '',
    validFromMs: 0,
    validToMs: Number.MAX_SAFE_INTEGER,
    keys: [p256, ed25519].map((key) => ({ key, id: undefined })),
  },
}
const snsBody = {
  Type: 'Notification',
  SignatureVersion: '2',
  TopicArn: topic,
  Timestamp: '2026-09-21T13:33:20Z',
  Signature: 'AAAA',
  SigningCertURL: 'https://sns.us-west-2.amazonaws.com/SimpleNotificationService-a.pem',
}

const nowMs = 1_790_000_000_000
const jwtOf = (header: object, claims: object) =>
  `${Buffer.from(JSON.stringify(header)).toString('base64url')}.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.AAAA`
const value = fc.oneof(
  fc.string({ unit: 'binary', maxLength: 100 }),
  fc.constantFrom(
    '',
    '1790000000',
    '1790000000000',
    '2026-09-21T13:33:20Z',
    'a',
    'x.y',
    `v0=${'a'.repeat(64)}`,
    `${'A'.repeat(43)}=`,
  ),
  fc.constantFrom(
    `t=1790000000,v1=${'a'.repeat(64)}`,
    `t=1790000000,v1=${'a'.repeat(64)},v1=${'b'.repeat(64)}`,
    `1790000000,${'a'.repeat(64)}`,
  ),
  fc.constantFrom(
    `v1,${'A'.repeat(43)}= v1,${'B'.repeat(43)}=`,
    'Basic YTpi',
    'a'.repeat(20_000),
    'v1=a,'.repeat(1_000),
    '='.repeat(5_000),
  ),
  fc.constantFrom(
    jwtOf({ alg: 'ES256' }, { exp: 1 }),
    jwtOf({ alg: 'none' }, {}),
    jwtOf({ alg: 'HS256', kid: 'x' }, { aud: ['a'] }),
    '..',
  ),
)
const body = fc.oneof(
  fc.uint8Array({ maxLength: 300 }),
  fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
  fc
    .record({
      id: fc.jsonValue({ maxDepth: 1 }),
      type: fc.jsonValue({ maxDepth: 1 }),
      a: fc.constantFrom<unknown>({ b: 'x' }, [{ b: 1 }], null),
      list: fc.constant([1, 2]),
    })
    .map((each) => Buffer.from(JSON.stringify(each))),
  fc.webQueryParameters().map((text) => Buffer.from(text)),
  fc
    .dictionary(fc.constantFrom(...Object.keys(snsBody), 'Token', 'Subject'), fc.jsonValue({ maxDepth: 1 }), {
      maxKeys: 2,
    })
    .map((changed) => Buffer.from(JSON.stringify({ ...snsBody, ...changed }))),
  fc
    .constantFrom(
      '['.repeat(8_000),
      `[${'0,'.repeat(8_000)}0]`,
      'a=b&'.repeat(4_000),
      '&'.repeat(16_000),
      `payload=${'%7B'.repeat(5_000)}`,
      `{"a":{"b":"${'x'.repeat(16_000)}"}}`,
      '[1],"x":2',
    )
    .map((text) => Buffer.from(text)),
)
const headerNames = ['x-sig', 'x-time', 'x-id', 'x-type', 'x-more', 'x-older']
const call: fc.Arbitrary<ProviderCall> = fc
  .record({
    values: fc.dictionary(fc.constantFrom(...headerNames), value),
    media: fc.constantFrom(null, 'application/json', 'application/x-www-form-urlencoded'),
    body,
    method: fc.constantFrom('GET', 'HEAD', 'POST'),
    url: fc.oneof(
      value.map((text) => `https://hooks.example.com/p?q=${encodeURIComponent(text.toWellFormed())}`),
      fc.string(),
    ),
    hasRequest: fc.constantFrom(true, true, true, false),
    isPublished: fc.boolean(),
  })
  .map(({ values, media, body: bytes, method, url, hasRequest, isPublished }) => {
    const given: CallHeaders = {
      get: (name) => (name === 'content-type' ? media : (values[name.toLowerCase()] ?? null)),
    }
    const request = hasRequest ? { request: { method, url } } : {}
    const published = isPublished ? publishedKeys : {}
    return {
      ...request,
      ...published,
      headers: given,
      body: bytes,
      settings: {},
      nowMs,
      signatureAgeMsMax: 300_000,
    }
  })

const plainCall = { settings: {}, nowMs, signatureAgeMsMax: 300_000, request: { method: 'POST', url: '' } }
/** Calls that reach the finding of published keys, whatever the random ones contain. */
const snsCall: ProviderCall = {
  ...plainCall,
  ...publishedKeys,
  headers: new Headers(),
  body: Buffer.from(JSON.stringify(snsBody)),
}
const tokenCalls = ['', 'Bearer '].map(
  (prefix): ProviderCall => ({
    ...plainCall,
    ...publishedKeys,
    body: Buffer.from('{}'),
    headers: new Headers({ 'x-sig': `${prefix}${jwtOf({ alg: 'ES256', kid: 'x' }, { aud: topic })}` }),
  }),
)

/** What runs have reached. */
interface Reached {
  events: number
  answers: number
  readonly causes: Set<string>
  readonly sources: Set<string>
}

/** Runs random calls against random declarations. @throws at the first one that throws or exceeds the bound on work */
function runCalls(seen: Reached, runSeed: number): void {
  const valid = [
    ...fc.sample(spec, { numRuns: 400, seed: runSeed }),
    ...fc.sample(snsSpec, { numRuns: 200, seed: runSeed }),
  ].flatMap((each) => validated(each) ?? [])
  expect(valid.length).toBeGreaterThan(60)
  fc.assert(
    fc.property(
      fc.constantFrom(...valid),
      fc.array(call, { minLength: 5, maxLength: 20 }),
      (declared, calls) => {
        let units = 0
        const provider = compileDeclaration(declared, (each) => {
          units += each
        })
        const keys = provider.prepare(secrets)
        for (const each of [...calls, snsCall, ...tokenCalls]) {
          units = 0
          const location = provider.locate?.(each, keys)
          if (location?.kind === 'located') {
            seen.sources.add(location.source)
            expect(location.url).toMatch(/^https:\/\/(keys\.example\.com|sns\.us-west-2\.amazonaws\.com)\//)
          }
          expect(provider.confirmationUrl?.(each) ?? 'https://sns.').toStartWith('https://sns.')
          const verification = provider.verify(each, keys)
          const normalization = provider.normalize(each)
          const answer = provider.handshakes?.answer(each, keys)
          expect(units).toBeLessThanOrEqual(workMax(each.body.length))
          for (const result of [verification, normalization, answer, location]) {
            if (result?.kind !== 'refused') continue
            expect(refusalCauses).toContain(result.cause)
            seen.causes.add(result.cause)
          }
          if (normalization.kind === 'event') {
            seen.events += 1
            expect(JSON.parse(normalization.payload)).toBeObject()
            expect(normalization.type).toMatch(/^[a-z0-9_]+(\.[a-z0-9_]+)*$/)
          }
          if (answer?.kind === 'answer') {
            seen.answers += 1
            expect(answer.body.length).toBeLessThan(4096)
          }
        }
      },
    ),
    { numRuns: 200, seed: runSeed },
  )
}

test('declared providers: no combination of a valid declaration and a call throws or exceeds the limit on work', () => {
  const seen: Reached = { events: 0, answers: 0, causes: new Set(), sources: new Set() }
  for (const each of [seed, coveringSeed]) runCalls(seen, each)
  // Checks that the random runs covered all outcomes.
  expect(seen.events).toBeGreaterThan(20)
  expect(seen.answers).toBeGreaterThan(0)
  expect([...seen.sources].toSorted()).toEqual(['jwks', 'sns'])
  for (const cause of [
    'signature_missing',
    'signature_malformed',
    'signature_mismatch',
    'scheme_unknown',
    'headers_conflict',
    'event_id_missing',
    'body_not_json',
  ]) {
    expect(seen.causes).toContain(cause)
  }
}, 120_000)

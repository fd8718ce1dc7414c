// Rules that every provider must satisfy. A provider's kit in test/support/intake/provider-kits describes how the vendor composes and signs a
// call.
import { describe, expect, test } from 'bun:test'
import { readdirSync } from 'node:fs'
import fc from 'fast-check'
import type { ConformanceKit } from '#test/support/intake/provider-kits/kit.ts'
import { type CallHeaders, type ProviderCall, refusalCauses, type UnsignedCall } from '../provider.ts'
import { findProvider, providers } from './registry.ts'

const nowMs = 1_790_000_000_000
const ageMsMax = 300_000
const typeForm = /^[a-z0-9_]+(\.[a-z0-9_]+)*$/

const folders = readdirSync(import.meta.dir, { withFileTypes: true })
  .filter((entry) => entry.isDirectory())
  .map((entry) => entry.name)
const kits: ConformanceKit[] = []
for (const folder of folders) {
  const found = (await import(`#test/support/intake/provider-kits/${folder}.ts`)) as {
    readonly kits: readonly ConformanceKit[]
  }
  kits.push(...found.kits)
}

describe('registry', () => {
  test('provider registry: contains each provider folder once, and each provider has conformance kits', () => {
    expect(providers.map(({ name }) => name as string).sort()).toEqual([...folders].sort())
    expect([...new Set(kits.map(({ provider }) => provider.name as string))].sort()).toEqual(
      [...folders].sort(),
    )
  })

  test.each(folders)('provider folder %s: has every file that README.md lists', (folder) => {
    const files = readdirSync(`${import.meta.dir}/${folder}`)
    const listed = ['README.md', 'fixtures', `${folder}.test.ts`]
    expect(listed.filter((name) => !files.includes(name))).toEqual([])
    expect(readdirSync(`${import.meta.dir}/${folder}/fixtures`)).not.toEqual([])
  })

  test('findProvider: finds a provider by its neutral name and by its vendor’s name, and by no other name', () => {
    expect(findProvider('card')?.name).toBe('card')
    expect(findProvider('stripe')?.name).toBe('card')
    expect(findProvider('shopify')?.name).toBe('storefront')
    expect(findProvider('github')?.name).toBe('codehost')
    expect(findProvider('paypal')?.name).toBe('wallet')
    expect(findProvider('braintree')?.name).toBe('gateway')
    for (const name of ['Card', '', 'constructor', 'nobody']) {
      expect(findProvider(name)).toBeUndefined()
    }
  })
})

/** Creates headers from a plain record, so that tests can use values that `Headers` refuses. */
const headersOf = (record: Readonly<Record<string, string>>): CallHeaders => ({
  get: (name) => record[name.toLowerCase()] ?? null,
})

function callOf(
  kit: ConformanceKit,
  headers: Readonly<Record<string, string>>,
  body: Uint8Array,
): ProviderCall {
  return { headers: headersOf(headers), body, settings: kit.settings, nowMs, signatureAgeMsMax: ageMsMax }
}

/** Returns a call as the vendor sends it. */
function sent(kit: ConformanceKit, composed: UnsignedCall, by: string, atMs = nowMs): ProviderCall {
  return callOf(kit, kit.sign(composed, by, atMs), kit.seal?.(composed.body, by) ?? composed.body)
}

function verify(kit: ConformanceKit, call: ProviderCall, secrets: readonly string[]) {
  const { provider } = kit
  if (kit.verify) return kit.verify(call, secrets)
  if (!('prepare' in provider)) throw new Error(`${kit.title} has nothing to verify with`)
  return provider.verify(call, provider.prepare(secrets))
}

/** Verifies a call and, if this succeeds, normalizes it. */
function receive(kit: ConformanceKit, call: ProviderCall, secrets: readonly string[] = [kit.secrets[0]]) {
  const verification = verify(kit, call, secrets)
  return verification.kind === 'refused' ? verification : kit.provider.normalize(call)
}

const refused = (cause: string) => ({
  kind: 'refused' as const,
  cause: cause as (typeof refusalCauses)[number],
})
const event = { eventId: 'id-0001', type: 'thing.happened' }

describe.each(kits.map((kit) => [kit.title, kit] as const))('%s', (title, kit) => {
  const [secret] = kit.secrets
  const unsigned = kit.compose(event)
  const signed = kit.sign(unsigned, secret, nowMs)
  const { body: whole } = sent(kit, unsigned, secret)
  const { signatureHeader } = kit
  const signature = signatureHeader === undefined ? '' : (signed[signatureHeader] ?? '')
  const call = (headers: Readonly<Record<string, string>>, body = whole) => callOf(kit, headers, body)
  const withSignature = (value: string) =>
    call(signatureHeader === undefined ? signed : { ...signed, [signatureHeader]: value })
  const signedText = (text: string) => sent(kit, { ...unsigned, body: Buffer.from(text) }, secret)

  test(`${title}: a signed call becomes an event with id, type and payload as received`, () => {
    const received = receive(kit, call(signed))
    if (received.kind !== 'event') throw new Error(received.cause)
    const eventId = kit.ownIds ? expect.stringMatching(/^[0-9a-f]{64}$/) : event.eventId
    expect(received).toMatchObject({ sourceEventId: eventId, rawType: event.type })
    expect(received.type).toMatch(typeForm)
    const text = Buffer.from(unsigned.body).toString()
    const plain = text.startsWith('payload=') ? decodeURIComponent(text.slice(8)) : text
    expect(received.payload).toBe(kit.payloadOf?.(unsigned.body) ?? plain)
  })

  test.each([0, 1, 2, 3, 4])(
    `${title}: a signature by live secret %i of five is valid, and a signature by another secret is not`,
    (index) => {
      const live = kit.secrets[index] ?? ''
      const one = sent(kit, unsigned, live)
      if (!kit.alone) expect(receive(kit, one, kit.secrets).kind).toBe('event')
      expect(receive(kit, one, [live]).kind).toBe('event')
      const others = kit.secrets.filter((each) => each !== live)
      expect(receive(kit, one, others)).toEqual(refused('signature_mismatch'))
    },
  )

  test(`${title}: without a secret or with an empty secret no call is verified`, () => {
    const byNobody = sent(kit, unsigned, '')
    expect(receive(kit, byNobody, [])).toEqual(refused('signature_mismatch'))
    expect(receive(kit, byNobody, [''])).toEqual(refused('signature_mismatch'))
  })

  test(`${title}: a body with any byte changed, added or removed is refused`, () => {
    // A form with changed bytes can still encode the same fields. It then counts as the same call and is accepted.
    const original = receive(kit, call(signed))
    const changedTo = (body: Uint8Array) => {
      const received = receive(kit, call(signed, body))
      if (!kit.seal) expect(received).toEqual(refused('signature_mismatch'))
      else if (received.kind === 'event') expect<typeof original>(received).toEqual(original)
    }
    for (let at = 0; at < whole.length; at += 1) {
      const changed = Uint8Array.from(whole)
      changed[at] = (changed[at] ?? 0) ^ (1 << (at % 8))
      changedTo(changed)
    }
    changedTo(whole.subarray(1))
    changedTo(whole.subarray(0, -1))
    changedTo(Buffer.concat([whole, Buffer.from('\n')]))
    changedTo(Buffer.concat([Buffer.from('\ufeff'), whole]))
    changedTo(new Uint8Array())
  })

  test(`${title}: a truncated or extended signature is refused`, () => {
    if (signatureHeader === undefined) return
    for (let length = 1; length < signature.length; length += 1) {
      expect(receive(kit, withSignature(signature.slice(0, length))).kind).toBe('refused')
    }
    expect(receive(kit, withSignature(`${signature}0`)).kind).toBe('refused')
  })

  test(`${title}: a missing, empty, garbage or repeated signature is refused`, () => {
    if (signatureHeader === undefined) return
    const { [signatureHeader]: _, ...without } = signed
    expect(receive(kit, call(without))).toEqual(refused('signature_missing'))
    expect(receive(kit, withSignature(''))).toEqual(refused('signature_missing'))
    for (const value of ['garbage', '=', ',', ' ', '\u0000', 'é'.repeat(64), 'a'.repeat(100_000)]) {
      expect(receive(kit, withSignature(value)).kind).toBe('refused')
    }
    expect(receive(kit, withSignature(`${signature}, ${signature}`)).kind).toBe('refused')
  })

  test(`${title}: signatures in other schemes are refused as scheme_unknown`, () => {
    for (const value of kit.otherSchemes) {
      expect(receive(kit, withSignature(value))).toEqual(refused('scheme_unknown'))
    }
  })

  test(`${title}: hex digests are accepted in upper and lower case, and base64 is case-sensitive`, () => {
    if (signatureHeader === undefined) return
    const upper = withSignature(
      kit.hex ? signature.replace(/[0-9a-f]{64}/, (hex) => hex.toUpperCase()) : signature.toUpperCase(),
    )
    expect(receive(kit, upper).kind).toBe(kit.hex ? 'event' : 'refused')
  })

  test(`${title}: a signed time is checked to the second in both directions, and without a signed time the clock is ignored`, () => {
    const at = (ms: number) => receive(kit, sent(kit, unsigned, secret, nowMs + ms))
    const pastMsMax = kit.pastMsMax ?? ageMsMax
    for (const ms of [-pastMsMax, ageMsMax]) expect(at(ms).kind).toBe('event')
    const outside = [-pastMsMax - 1000, ageMsMax + 1000, -nowMs, nowMs * 9]
    for (const ms of outside) {
      if (kit.timed) expect(at(ms)).toEqual(refused('timestamp_outside_window'))
      else expect(at(ms).kind).toBe('event')
    }
  })

  test(`${title}: the vendor’s header names work like the neutral names, and different values are refused`, () => {
    for (const names of kit.twins) {
      const [neutral = '', ...others] = names
      const { [neutral]: value = '', ...rest } = signed
      expect(value).not.toBe('')
      for (const other of others) {
        expect(receive(kit, call({ ...rest, [other]: value }))).toEqual(receive(kit, call(signed)))
        expect(receive(kit, call({ ...signed, [other]: value }))).toEqual(receive(kit, call(signed)))
        for (const different of [`${value}x`, '']) {
          expect(receive(kit, call({ ...signed, [other]: different })).kind).toBe('refused')
          expect(receive(kit, call({ ...signed, [neutral]: different, [other]: value })).kind).toBe('refused')
        }
      }
    }
  })

  test(`${title}: an event id has 1 to 255 characters without control characters`, () => {
    if (kit.ownIds) return
    const withId = (eventId: string | undefined) =>
      receive(kit, sent(kit, kit.compose({ ...event, eventId }), secret))
    expect(withId(undefined)).toEqual(refused('event_id_missing'))
    expect(withId('')).toEqual(refused('event_id_missing'))
    expect(withId('x'.repeat(255))).toMatchObject({ kind: 'event', sourceEventId: 'x'.repeat(255) })
    for (const id of ['x'.repeat(256), 'a\nb', '\u0000', 'a\u007f', 'a\u0085']) {
      expect(withId(id)).toEqual(refused('event_id_malformed'))
    }
    if (kit.idHeader !== undefined) expect(withId('a, a')).toEqual(refused('event_id_malformed'))
  })

  test(`${title}: secretHeaders contains every header that depends on the secret`, () => {
    const other = kit.sign(unsigned, kit.secrets[1], nowMs)
    const changing = Object.keys(signed).filter((name) => signed[name] !== other[name])
    const own = signatureHeader === undefined ? [] : [signatureHeader]
    expect(changing).toEqual(own)
    const twins = kit.twins.find(([neutral]) => neutral === signatureHeader) ?? own
    expect(kit.provider.secretHeaders).toEqual(expect.arrayContaining([...twins]))
    for (const name of kit.provider.secretHeaders) expect(name).toBe(name.toLowerCase())
  })

  test.each([
    ['empty', ''],
    ['white space', ' \n'],
    ['an array', '[{"id":"a"}]'],
    ['a number', '1'],
    ['null', 'null'],
    ['a text', '"a"'],
    ['half an object', '{"id":"a"'],
    ['two objects', '{"id":"a"}{"id":"b"}'],
    ['a byte order mark', '\ufeff{"id":"a","type":"b"}'],
    ['a comment', '{"id":"a"/**/}'],
  ])(`${title}: a signed body that is %s is refused`, (_what, text) => {
    expect(receive(kit, signedText(text)).kind).toBe('refused')
  })

  test(`${title}: a signed body that is not UTF-8 is refused`, () => {
    const body = Buffer.concat([
      Buffer.from('{"id":"a","type":"b","c":"'),
      Buffer.from([0xff]),
      Buffer.from('"}'),
    ])
    expect(receive(kit, sent(kit, { ...unsigned, body }, secret)).kind).toBe('refused')
  })

  // The tests below insert text into the body, which is possible in a JSON body, but not in a form field.
  const isJson = Buffer.from(unsigned.body).toString().startsWith('{')
  const spliced = (text: string) =>
    receive(kit, signedText(`{${text},${Buffer.from(unsigned.body).toString().slice(1)}`))

  test(`${title}: values of a body are unchanged in the payload, however large or deep`, () => {
    if (!isJson) return
    for (const text of [
      '"big":820982911946154508',
      '"__proto__":{"id":"polluted","type":"polluted"},"constructor":{"prototype":1}',
      `"deep":${'['.repeat(255)}${']'.repeat(255)}`,
      `"wide":[${'0,'.repeat(200_000)}0]`,
      `"long":"${'é\\u0000\\ud800'.repeat(50_000)}"`,
    ]) {
      const received = spliced(text)
      if (received.kind !== 'event') throw new Error(received.cause)
      expect(received.sourceEventId).toBe(event.eventId)
      expect(received.payload.startsWith(`{${text},`)).toBe(true)
    }
  })

  test(`${title}: a body of more than 256 levels is refused`, () => {
    if (!isJson) return
    for (const inner of ['['.repeat(256) + ']'.repeat(256), '{"a":'.repeat(100_000)]) {
      expect(spliced(`"deep":${inner}`)).toEqual(refused('body_too_deep'))
    }
  })

  test(`${title}: a repeated top-level member is refused, also if its name is escaped`, () => {
    if (!isJson) return
    for (const text of ['"a":1,"a":2', '"id":"x","\\u0069d":"x"', '"type":"x","type":"x"']) {
      expect(spliced(text)).toEqual(refused('body_ambiguous'))
    }
  })

  test(`${title}: every type is normalized to dotted lowercase`, () => {
    const types = fc.oneof(fc.string({ maxLength: 300 }), fc.string({ unit: 'binary', maxLength: 40 }))
    fc.assert(
      fc.property(types, (type) => {
        const received = receive(kit, sent(kit, kit.compose({ ...event, type }), secret))
        if (received.kind === 'refused') {
          expect(received.cause).toBe('event_type_malformed')
          return
        }
        expect(received.type).toMatch(typeForm)
        expect(received.type.length).toBeLessThanOrEqual(255)
        expect(received.rawType.length).toBeLessThanOrEqual(255)
      }),
      { numRuns: 300, seed: 7 },
    )
    for (const type of ['constructor', '__proto__', 'toString']) {
      const received = receive(kit, sent(kit, kit.compose({ ...event, type }), secret))
      expect(received).toMatchObject({ kind: 'event', type: `${kit.provider.name}.${type.toLowerCase()}` })
    }
  })

  test(`${title}: random input never throws and is never verified`, () => {
    const names = [...new Set([...Object.keys(signed), ...kit.twins.flat(), ...kit.provider.secretHeaders])]
    const value = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.string(),
      fc.constantFrom(
        signature,
        `${signature},v1=`,
        't=1,v1=',
        'sha256=',
        'v1,',
        'application/x-www-form-urlencoded',
      ),
    )
    const body = fc.oneof(
      fc.uint8Array({ maxLength: 200 }),
      fc.json({ maxDepth: 4 }).map((text) => Buffer.from(text)),
      fc.string().map((text) => Buffer.from(`payload=${text}`)),
      fc.string().map((text) => Buffer.from(`gateway_signature=a|${'0'.repeat(40)}&gateway_payload=${text}`)),
      fc.base64String().map((text) => Buffer.from(`bt_payload=${encodeURIComponent(text)}`)),
    )
    fc.assert(
      fc.property(fc.dictionary(fc.constantFrom(...names), value), body, (headers, bytes) => {
        const one = call(headers, bytes)
        const verification = verify(kit, one, kit.secrets)
        if (verification.kind !== 'refused') throw new Error('verified')
        expect(refusalCauses).toContain(verification.cause)
        const read = kit.provider.normalize(one)
        if (read.kind === 'refused') expect(refusalCauses).toContain(read.cause)
        else expect(JSON.parse(read.payload)).toBeObject()
      }),
      { numRuns: 500, seed: 7 },
    )
  })
})

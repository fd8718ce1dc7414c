import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { createRedactor } from './redact.ts'
import { isCardNumber } from './redact-shapes.ts'

const redactor = createRedactor(['loyaltyCode'])
const shown = (text: string) => redactor.payload(text).text

const secretName = fc
  .constantFrom(
    'password',
    'card_number',
    'api_key',
    'client_secret',
    'access_token',
    'private_key',
    'cvc',
    'session_token',
    'authorization',
    'set_cookie',
    'db_passwd',
    'signing_key',
    'user_pin',
    'credentials',
    'loyalty_code',
  )
  .chain((name) =>
    fc.constantFrom(
      name,
      name.toUpperCase(),
      name.replaceAll('_', '-'),
      name.replaceAll('_', ''),
      name.replaceAll('_', '.'),
      name.replace(/_(.)/g, (_all, letter: string) => letter.toUpperCase()),
    ),
  )
const digits = '0123456789'
const letters = 'abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789'
const word = (min: number, max: number) =>
  fc.string({ unit: fc.constantFrom(...letters.split('')), minLength: min, maxLength: max })
/** Found again wherever it may come out: nothing else has it in it. */
const secret = word(6, 40).map((text) => `zQ7${text}9Kx`)

const harmlessName = fc.constantFrom(
  'id',
  'amount',
  'type',
  'data',
  'object',
  'note',
  'card_id',
  'token_count',
  'a b',
)
/** A number without the digits of a card number. */
const double = fc.double({ noNaN: true }).filter(
  (number) =>
    !String(number)
      .match(/\d+/g)
      ?.some((run) => isCardNumber(run)),
)
const leaf = fc.oneof(fc.integer(), fc.boolean(), fc.constant(null), word(0, 12), double)
const { tree } = fc.letrec((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4 },
    leaf,
    fc.array(tie('tree'), { maxLength: 4 }),
    fc.dictionary(harmlessName, tie('tree'), { maxKeys: 4 }),
  ),
}))

type Wrap = (inner: unknown) => unknown
const asText = (inner: unknown) => (typeof inner === 'string' ? inner : JSON.stringify(inner))
const wraps: Record<string, Wrap> = {
  object: (inner) => ({ id: 1, data: inner, amount: 12.5 }),
  array: (inner) => [1, inner, 'x'],
  string: (inner) => JSON.stringify(inner),
  base64: (inner) => Buffer.from(asText(inner)).toString('base64'),
  base64url: (inner) => Buffer.from(asText(inner)).toString('base64url'),
  hexadecimal: (inner) => Buffer.from(asText(inner)).toString('hex'),
  percent: (inner) => encodeURIComponent(asText(inner)),
  form: (inner) => new URLSearchParams({ id: '1', data: asText(inner), z: 'y' }).toString(),
  query: (inner) => `https://a.example/x?data=${encodeURIComponent(asText(inner))}&b=c`,
}
const wrapping = fc.array(fc.constantFrom(...Object.keys(wraps)), { maxLength: 4 })
const wrapped = (inner: unknown, names: readonly string[]) =>
  asText(names.reduce<unknown>((value, name) => wraps[name]?.(value), inner))

/** Whether a text holds another, openly or in what a reader could decode from it. */
function holds(text: string, sought: string, depth = 0): boolean {
  if (text.includes(sought)) return true
  if (depth === 5) return false
  const rows = text.match(/[A-Za-z0-9+/_-]{12,}={0,2}/g) ?? []
  const decoded = [
    text.replace(/(?:%[\da-f]{2})+/gi, (row) => Buffer.from(row.replaceAll('%', ''), 'hex').toString()),
    text.replaceAll('\\"', '"').replaceAll('\\\\', '\\'),
    ...rows.flatMap((row) => [Buffer.from(row, 'base64').toString(), Buffer.from(row, 'hex').toString()]),
  ]
  return decoded.some((each) => each !== text && each !== '' && holds(each, sought, depth + 1))
}

const runs = { numRuns: 400 }

test('redactor: hides a secret under its name in any nesting and encoding', () => {
  const planted = fc.record({
    name: secretName,
    value: fc.oneof(
      secret.map((text) => ({ text, as: text as unknown })),
      secret.map((text) => ({ text, as: { deeper: [{ x: text }] } as unknown })),
      secret.map((text) => ({ text, as: [text, text] as unknown })),
    ),
    beside: fc.dictionary(harmlessName, tree, { maxKeys: 3 }),
    wrapping,
  })
  fc.assert(
    fc.property(planted, ({ name, value, beside, wrapping: names }) => {
      const text = wrapped({ ...beside, [name]: value.as }, names)
      expect(holds(text, value.text)).toBe(true)
      expect(holds(shown(text), value.text)).toBe(false)
    }),
    runs,
  )
})

const flat: Record<string, (name: string, value: string) => string> = {
  form: (name, value) => new URLSearchParams({ a: '1', [name]: value, b: '2' }).toString(),
  XML: (name, value) => `<a><b>1</b><${name} c="d">${value}</${name}></a>`,
  head: (name, value) => `Host: a\r\n${name}: ${value}\r\nAccept: b`,
  log: (name, value) => `level=info ${name}="${value}" msg=x`,
  YAML: (name, value) => `a: 1\n${name}: '${value}'\n`,
  pair: (name, value) => JSON.stringify([{ value, name, x: 1 }]),
  list: (name, value) =>
    JSON.stringify([
      ['a', 'b'],
      [name, value],
    ]),
  broken: (name, value) => `{"a":[1,{"${name}" : "${value}"`,
}

test('redactor: hides a secret after its name in forms, XML, headers, logs and pairs', () => {
  const planted = fc.record({
    name: secretName,
    value: secret,
    style: fc.constantFrom(...Object.keys(flat)),
    wrapping: wrapping.filter((names) => names.length < 4),
  })
  fc.assert(
    fc.property(planted, ({ name, value, style, wrapping: names }) => {
      const text = wrapped(flat[style]?.(name, value), names)
      expect(holds(text, value)).toBe(true)
      expect(holds(shown(text), value)).toBe(false)
    }),
    runs,
  )
})

/** A number of a network, its last digit made right. */
const cardNumber = fc
  .tuple(
    fc.constantFrom(['4', 16], ['51', 16], ['2720', 16], ['37', 15], ['6011', 16], ['3530', 16], ['62', 17]),
    fc.string({ unit: fc.constantFrom(...digits.split('')), minLength: 18, maxLength: 18 }),
  )
  .map(([[prefix, length], rest]) => {
    const start = `${prefix}${rest}`.slice(0, length - 1)
    return Array.from(digits, (last) => `${start}${last}`).find(isCardNumber) ?? ''
  })
const grouped = (number: string, by: string) => (number.match(/.{1,4}/g) ?? []).join(by)

test('redactor: hides a secret of a known format anywhere in a text', () => {
  const card = fc
    .tuple(cardNumber, fc.constantFrom('', ' ', '-', '.'))
    .map(([number, by]) => ({ text: grouped(number, by), sought: grouped(number, by) }))
  const token = fc
    .tuple(fc.constantFrom('sk_live_', 'whsec_', 'lk_', 'ghp_', 'shpat_', 'Bearer '), word(24, 40))
    .map(([prefix, text]) => ({ text: `${prefix}${text}`, sought: text }))
  const mail = word(1, 20).map((text) => ({ text: `ada.${text}@mail.example`, sought: `ada.${text}@` }))
  const inUrl = secret.map((text) => ({ text: `redis://ada:${text}@cache:6379/0`, sought: text }))
  const pem = word(64, 64).map((text) => ({
    text: `-----BEGIN RSA PRIVATE KEY-----\n${text}\n-----END RSA PRIVATE KEY-----`,
    sought: text,
  }))
  const planted = fc.record({
    one: fc.oneof(card, token, mail, inUrl, pem),
    beside: fc.dictionary(harmlessName, tree, { maxKeys: 3 }),
    around: fc.constantFrom(['', ''], ['see ', ' there'], ['(', ')'], ['a, ', ', b']),
    wrapping,
  })
  fc.assert(
    fc.property(planted, ({ one, beside, around, wrapping: names }) => {
      const text = wrapped({ ...beside, deep: [{ comment: around.join(one.text) }] }, names)
      expect(holds(shown(text), one.sought)).toBe(false)
    }),
    runs,
  )
})

test('redactor: keeps harmless text unchanged, and keeps JSON with a secret valid', () => {
  fc.assert(
    fc.property(tree, secretName, fc.constantFrom(0, 2), (value, name, indent) => {
      const text = JSON.stringify(value, null, indent)
      expect(shown(text)).toBe(text)
      const planted = JSON.stringify({ before: value, [name]: 'zQ7-9Kx-4', after: value }, null, indent)
      const expected = JSON.stringify({ before: value, [name]: '[redacted]', after: value }, null, indent)
      expect(shown(planted)).toBe(expected)
    }),
    runs,
  )
})

test('redactor: never throws, and redacting twice has the same result as once', () => {
  const pieces = fc.constantFrom(
    '{',
    '}',
    '[',
    ']',
    '"',
    "'",
    '\\',
    '\\u00',
    ':',
    '=',
    '&',
    '%',
    '%4',
    '<',
    '</',
    '>',
    '@',
    '://',
    ' ',
    '\n',
    'password',
    'token',
    'eyJ',
    'Bearer ',
    '4242',
    '4242 4242 4242 4242',
    'a.b',
    'YWRhOmI=',
    '[redacted',
    '\ud800',
  )
  const texts = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.array(pieces, { maxLength: 40 }).map((all) => all.join('')),
  )
  fc.assert(
    fc.property(texts, fc.nat(200), (text, charsMax) => {
      const once = shown(text)
      expect(shown(once)).toBe(once)
      expect(redactor.payload(text, charsMax).text.length).toBeLessThan(charsMax * 12 + 200)
    }),
    { numRuns: 2000 },
  )
})

import { describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { decodeText, digestDecoder, equalBytes, hmacKeys, isInWindow, isSigned } from './signature.ts'

const hmac = (key: string, text: string) => createHmac('sha256', key).update(text).digest()

test('equalBytes: byte arrays of different length are unequal and do not throw', () => {
  const bytes = Buffer.alloc(32, 1)
  expect(equalBytes(bytes, Buffer.alloc(32, 1))).toBe(true)
  for (const length of [0, 1, 31, 33, 64]) expect(equalBytes(bytes, Buffer.alloc(length, 1))).toBe(false)
  for (let at = 0; at < 32; at += 1) {
    const other = Buffer.from(bytes)
    other[at] = 0
    expect(equalBytes(bytes, other)).toBe(false)
  }
  expect(equalBytes(new Uint8Array(), new Uint8Array())).toBe(true)
})

describe('isSigned', () => {
  test('isSigned: accepts any pair of key and signature over the concatenated parts', () => {
    const keys = hmacKeys(['one', 'two'])
    const wrong = Buffer.alloc(32)
    for (const key of ['one', 'two']) {
      expect(isSigned(keys, ['a.', Buffer.from('b')], [wrong, hmac(key, 'a.b')])).toBe(true)
    }
    expect(isSigned(keys, ['a.', 'b'], [hmac('three', 'a.b'), wrong])).toBe(false)
    expect(isSigned(keys, ['a.b'], [hmac('one', 'a.b').subarray(0, 31), new Uint8Array()])).toBe(false)
    expect(isSigned(keys, ['a.b'], [])).toBe(false)
    expect(isSigned([], ['a.b'], [hmac('one', 'a.b')])).toBe(false)
  })

  test('hmacKeys: skips an empty secret', () => {
    expect(hmacKeys(['', 'a', ''])).toHaveLength(1)
  })
})

test('isInWindow: the window has the same length in both directions', () => {
  for (const atMs of [700_000, 1_000_000, 1_300_000]) expect(isInWindow(atMs, 1_000_000, 300_000)).toBe(true)
  for (const atMs of [699_999, 1_300_001, 0, Number.NaN]) {
    expect(isInWindow(atMs, 1_000_000, 300_000)).toBe(false)
  }
})

test.each([
  ['hex', 'aB'.repeat(32), ['a'.repeat(63), 'a'.repeat(65), `${'a'.repeat(63)}g`, ` ${'a'.repeat(63)}`, '']],
  [
    'base64',
    `${'aB+/'.repeat(10)}abc=`,
    [
      'a'.repeat(44),
      'a'.repeat(43),
      `${'a'.repeat(42)}==`,
      `${'a-'.repeat(21)}a=`,
      `${'a'.repeat(43)}=\n`,
      '',
    ],
  ],
  [
    'base64url',
    `${'aB-_'.repeat(10)}abc`,
    ['a'.repeat(44), `${'a+'.repeat(21)}a`, `${'a'.repeat(43)}==`, ''],
  ],
] as const)('digestDecoder: %s decodes 32 bytes and refuses anything else', (encoding, good, bad) => {
  const decode = digestDecoder(encoding, 32)
  expect(decode(good)).toHaveLength(32)
  for (const text of bad) expect(decode(text)).toBeUndefined()
})

test.each([
  ['sha1', 20, `${'a'.repeat(27)}=`],
  ['sha384', 48, 'a'.repeat(64)],
  ['sha512', 64, `${'a'.repeat(86)}==`],
] as const)(
  'digestDecoder: a base64 digest of %s has %i bytes and the padding of this length',
  (_hash, bytes, text) => {
    expect(digestDecoder('base64', bytes)(text)).toHaveLength(bytes)
    expect(digestDecoder('base64', 32)(text)).toBeUndefined()
  },
)

test('decodeText: decodes at most 1368 characters, and refuses text that is not exactly in the encoding', () => {
  expect(decodeText('00fF', 'hex')).toEqual(Buffer.from([0, 255]))
  expect(decodeText('YQ==', 'base64')).toEqual(Buffer.from('a'))
  expect(decodeText('YQ', 'base64url')).toEqual(Buffer.from('a'))
  for (const text of ['', '0', '0g', '00 ']) expect(decodeText(text, 'hex')).toBeUndefined()
  for (const text of ['YR', 'YQB', 'YWJjx', 'YQ=\n']) expect(decodeText(text, 'base64url')).toBeUndefined()
  for (const text of ['YQ', 'YQ=', 'YR==', 'Y-==', 'YQ==\n'])
    expect(decodeText(text, 'base64')).toBeUndefined()
  expect(decodeText('a'.repeat(1368), 'base64')).toBeDefined()
  expect(decodeText('a'.repeat(1372), 'base64')).toBeUndefined()
})

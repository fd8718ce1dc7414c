import { describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import {
  decodeBase64Digest,
  decodeHexDigest,
  equalBytes,
  hmacKeys,
  isInWindow,
  isSigned,
  parseSignedTime,
  standardHmacKeys,
  verifyStandardHeaders,
  verifyTimedHeader,
} from './signature.ts'

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
    expect(standardHmacKeys(['', 'whsec_', 'whsec_AAAA'])).toHaveLength(0)
  })
})

test.each([
  [
    'hex',
    decodeHexDigest,
    'aB'.repeat(32),
    ['a'.repeat(63), 'a'.repeat(65), `${'a'.repeat(63)}g`, ` ${'a'.repeat(63)}`, ''],
  ],
  [
    'base64',
    decodeBase64Digest,
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
] as const)('digest decoder: %s decodes 32 bytes and refuses anything else', (_form, decode, good, bad) => {
  expect(decode(good)).toHaveLength(32)
  for (const text of bad) expect(decode(text)).toBeUndefined()
})

test('parseSignedTime: accepts 1 to 12 digits and keeps the text', () => {
  expect(parseSignedTime('01794300000')).toEqual({ text: '01794300000', atMs: 1_794_300_000_000 })
  for (const text of ['', '-1', '+1', '1.0', '1e9', '0x10', ' 1', '1\n', '1'.repeat(13), '١٢']) {
    expect(parseSignedTime(text)).toBeUndefined()
  }
})

test('isInWindow: the window has the same length in both directions', () => {
  const check = { body: new Uint8Array(), nowMs: 1_000_000, signatureAgeMsMax: 300_000 }
  for (const atMs of [700_000, 1_000_000, 1_300_000]) expect(isInWindow(atMs, check)).toBe(true)
  for (const atMs of [699_999, 1_300_001, 0]) expect(isInWindow(atMs, check)).toBe(false)
})

test('signature headers: a header that is too long is malformed', () => {
  const check = { body: new Uint8Array(), nowMs: 1_000_000, signatureAgeMsMax: 300_000 }
  const keys = hmacKeys(['one'])
  const timed = `t=1000,v1=${hmac('one', '1000.').toString('hex')}`
  expect(verifyTimedHeader(timed, check, keys)).toEqual({ kind: 'verified' })
  expect(verifyTimedHeader(timed + ',v0=a'.repeat(1000), check, keys)).toMatchObject({
    cause: 'signature_malformed',
  })

  const standard = { id: 'a', time: '1000', signature: `v1,${hmac('one', 'a.1000.').toString('base64')}` }
  expect(verifyStandardHeaders(standard, check, keys)).toEqual({ kind: 'verified' })
  const long = { ...standard, signature: standard.signature + ' v0,a'.repeat(1000) }
  expect(verifyStandardHeaders(long, check, keys)).toMatchObject({ cause: 'signature_malformed' })
})

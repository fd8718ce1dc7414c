import { describe, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { equalBytes, hmacKeys, isInWindow, isSigned } from './signature.ts'

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

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  createEventId,
  dayAfter,
  decodeBase32,
  encodeBase32,
  expiryDayOf,
  parseEventId,
  parseTenantId,
  randomToken,
  receivedAtMsOf,
  tenantIdFromBytes,
} from './ids.ts'

describe('base 32', () => {
  test.each([
    ['no bytes', [], ''],
    ['one byte as two characters', [0xff], 'zw'],
    ['five bytes as eight characters', [0, 0, 0, 0, 0], '00000000'],
    [
      'each group of five bits as one character',
      [0b00001_000, 0b10_00011_0, 0b0100_0010, 0b1_00110_00, 0b111_01000],
      '12345678',
    ],
  ])('encodeBase32: encodes %s', (_case, bytes, text) => {
    expect(encodeBase32(new Uint8Array(bytes))).toBe(text)
  })

  test('encodeBase32: different inputs of equal length have different encodings', () => {
    const bytes = fc.uint8Array({ minLength: 16, maxLength: 16 })
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        expect(encodeBase32(one) === encodeBase32(other)).toBe(Buffer.from(one).equals(other))
      }),
    )
  })
})

describe('a tenant’s id', () => {
  test('parseTenantId: accepts every id that tenantIdFromBytes creates', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 16, maxLength: 40 }), (bytes) => {
        const tenantId = tenantIdFromBytes(bytes)
        expect(parseTenantId(tenantId)).toBe(tenantId)
        expect(tenantId).toBe(tenantIdFromBytes(bytes.subarray(0, 16)))
      }),
    )
  })

  test('tenantIdFromBytes: throws for fewer than 16 bytes', () => {
    expect(() => tenantIdFromBytes(new Uint8Array(15))).toThrow(RangeError)
  })

  test.each([
    ['an empty text', ''],
    ['another prefix', `evt_${'0'.repeat(26)}`],
    ['an id that is too short', `ten_${'0'.repeat(25)}`],
    ['an id that is too long', `ten_${'0'.repeat(27)}`],
    ['a letter that reads like a digit', `ten_${'0'.repeat(25)}l`],
    ['capital letters', `ten_${'A'.repeat(26)}`],
    ['a brace, which would end the hash tag of a Redis key', `ten_${'0'.repeat(25)}}`],
    ['a line feed after the id', `ten_${'0'.repeat(26)}\n`],
  ])('parseTenantId: rejects %s', (_case, text) => {
    expect(() => parseTenantId(text)).toThrow(RangeError)
  })
})

describe('a token', () => {
  test.each([
    [16, 22],
    [9, 12],
    [32, 43],
    [4096, 5462],
  ])('randomToken: encodes %d bytes as %d characters of base64url', (byteCount, length) => {
    expect(randomToken(byteCount)).toMatch(new RegExp(`^[A-Za-z0-9_-]{${length}}$`))
  })

  test('randomToken: never repeats a token in many calls with odd lengths', () => {
    const tokens = Array.from({ length: 5000 }, (_none, index) => randomToken(16 + (index % 3)))
    expect(new Set(tokens).size).toBe(tokens.length)
    expect(tokens.filter((token) => /^A+$/.test(token))).toEqual([])
  })
})

const noon = Date.parse('2026-11-21T12:00:00Z')
const times = fc.integer({ min: 0, max: 2 ** 45 })
const days = fc.integer({ min: 1, max: 255 })

describe('an event id', () => {
  test('createEventId: encodes the time of receipt and the expiry day, for any random bytes', () => {
    fc.assert(
      fc.property(times, days, (timeMs, eventDays) => {
        const id = createEventId(timeMs, eventDays)
        expect(parseEventId(id)).toBe(id)
        expect(receivedAtMsOf(id)).toBe(timeMs)
        expect(expiryDayOf(id)).toBe(dayAfter(timeMs, eventDays))
      }),
    )
  })

  test('createEventId: ids sort by time of receipt', () => {
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 1e9 }), days, (timeMs, laterMs, eventDays) => {
        expect(createEventId(timeMs, eventDays) < createEventId(timeMs + laterMs, 1)).toBe(true)
      }),
    )
  })

  test('createEventId: never repeats an id', () => {
    expect(new Set(Array.from({ length: 10_000 }, () => createEventId(noon, 90))).size).toBe(10_000)
  })

  test.each([['evt_'], ['evt_00000000000000000000000000x'], ['ten_00000000000000000000000000'], ['']])(
    'parseEventId: returns undefined for %p',
    (text) => {
      expect(parseEventId(text)).toBeUndefined()
    },
  )
})

test.each([
  ['the first moment of a day', '2026-11-21T00:00:00.000Z', 1, '2026-11-23'],
  ['the last moment of a day', '2026-11-21T23:59:59.999Z', 1, '2026-11-23'],
  ['a retention that passes the end of a year', '2026-12-31T12:00:00.000Z', 7, '2027-01-08'],
  ['a retention of 90 days', '2026-11-21T12:00:00.000Z', 90, '2027-02-20'],
])('dayAfter: returns the correct day for %s', (_name, at, eventDays, day) => {
  expect(dayAfter(Date.parse(at), eventDays)).toBe(day)
})

test('decodeBase32: inverts encodeBase32', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 40 }), (bytes) => {
      expect(new Uint8Array(decodeBase32(encodeBase32(bytes)))).toEqual(bytes)
    }),
  )
  expect(() => decodeBase32('u')).toThrow(RangeError)
})

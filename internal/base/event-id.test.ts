import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { createEventId, dayAfter, expiryDayOf, parseEventId, receivedAtMsOf } from './event-id.ts'
import { decodeBase32, encodeBase32 } from './id.ts'

const noon = Date.parse('2026-11-21T12:00:00Z')
const times = fc.integer({ min: 0, max: 2 ** 45 })
const days = fc.integer({ min: 1, max: 255 })

describe('an event id', () => {
  test('tells when it was made and when its event may go, whatever the random bytes', () => {
    fc.assert(
      fc.property(times, days, (timeMs, eventDays) => {
        const id = createEventId(timeMs, eventDays)
        expect(parseEventId(id)).toBe(id)
        expect(receivedAtMsOf(id)).toBe(timeMs)
        expect(expiryDayOf(id)).toBe(dayAfter(timeMs, eventDays))
      }),
    )
  })

  test('sorts as text by the time it was made', () => {
    fc.assert(
      fc.property(times, fc.integer({ min: 1, max: 1e9 }), days, (timeMs, laterMs, eventDays) => {
        expect(createEventId(timeMs, eventDays) < createEventId(timeMs + laterMs, 1)).toBe(true)
      }),
    )
  })

  test('is never the same twice', () => {
    expect(new Set(Array.from({ length: 10_000 }, () => createEventId(noon, 90))).size).toBe(10_000)
  })

  test.each([['evt_'], ['evt_00000000000000000000000000x'], ['ten_00000000000000000000000000'], ['']])(
    'is not read from %p',
    (text) => {
      expect(parseEventId(text)).toBeUndefined()
    },
  )
})

test.each([
  ['the first moment of a day', '2026-11-21T00:00:00.000Z', 1, '2026-11-23'],
  ['the last moment of a day', '2026-11-21T23:59:59.999Z', 1, '2026-11-23'],
  ['over the end of a year', '2026-12-31T12:00:00.000Z', 7, '2027-01-08'],
  ['90 days', '2026-11-21T12:00:00.000Z', 90, '2027-02-20'],
])('a row is kept whole days: %s', (_name, at, eventDays, day) => {
  expect(dayAfter(Date.parse(at), eventDays)).toBe(day)
})

test('base 32 comes back as the bytes it was made of', () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 0, maxLength: 40 }), (bytes) => {
      expect(new Uint8Array(decodeBase32(encodeBase32(bytes)))).toEqual(bytes)
    }),
  )
  expect(() => decodeBase32('u')).toThrow(RangeError)
})

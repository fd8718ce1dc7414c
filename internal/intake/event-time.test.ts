import { expect, test } from 'bun:test'
import { readIsoTime, readUnixSeconds } from './event-time.ts'

test.each([
  ['2026-11-10T09:00:00Z', Date.UTC(2026, 10, 10, 9)],
  ['2026-11-10T10:30:00.25+01:30', Date.UTC(2026, 10, 10, 9, 0, 0, 250)],
  ['2026-11-10T09:00:00.123456789Z', Date.UTC(2026, 10, 10, 9, 0, 0, 123)],
  ['1970-01-01T00:00:00Z', 0],
  ['9999-12-31T23:59:59.999Z', 253_402_300_799_999],
  ['1969-12-31T23:59:59Z', undefined],
  ['9999-12-31T23:59:59-01:00', undefined],
  ['2026-11-10T09:00:00', undefined],
  ['2026-11-10 09:00:00Z', undefined],
  ['2026-11-10', undefined],
  ['2026-13-10T09:00:00Z', undefined],
  ['Tue, 10 Nov 2026 09:00:00 GMT', undefined],
  ['', undefined],
  [1_794_300_000, undefined],
  [null, undefined],
])('the text %p', (value, ms) => {
  expect(readIsoTime(value)).toBe(ms as number)
})

test.each([
  [0, 0],
  [1_794_300_000, 1_794_300_000_000],
  [1_794_300_000.25, 1_794_300_000_250],
  [-1, undefined],
  [Number.NaN, undefined],
  [Number.POSITIVE_INFINITY, undefined],
  [1_794_300_000_000, undefined],
  ['1794300000', undefined],
  [undefined, undefined],
])('the number %p', (value, ms) => {
  expect(readUnixSeconds(value)).toBe(ms as number)
})

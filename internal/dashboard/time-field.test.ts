import { describe, expect, test } from 'bun:test'
import { parseTimeField, timeFieldText } from './time-field.ts'

describe('times in forms', () => {
  test.each([
    ['2026-11-21T19:50', '2026-11-21T19:50:00'],
    ['2026-11-21T19:50:07', '2026-11-21T19:50:07'],
    ['2026-11-21T19:50:07.250', '2026-11-21T19:50:07'],
    ['2026-11-21 19:50:07Z', '2026-11-21T19:50:07'],
    ['2026-11-21', '2026-11-21T00:00:00'],
  ])('%s is read in UTC', (text, expected) => {
    expect(timeFieldText(parseTimeField(text) ?? 0)).toBe(expected)
  })

  test.each([
    '',
    'yesterday',
    '2026-02-30',
    '2026-11-21T25:00',
    '1999-12-31',
    '2100-01-01',
    '1732218600000',
    '<b>',
  ])('%p is no time', (text) => {
    expect(parseTimeField(text)).toBeUndefined()
  })
})

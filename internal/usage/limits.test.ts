import { describe, expect, test } from 'bun:test'
import { defaultLockLimits, limitHeaders, resolveLockLimits } from './limits.ts'

describe('the limits in force', () => {
  test.each([
    ['a tenant that says nothing has the defaults', {}, defaultLockLimits],
    [
      'a limit that only warns does not refuse more than the default',
      { locksPerMinute: {} },
      defaultLockLimits,
    ],
    [
      'each limit of its own replaces its default alone',
      { locksPerMonth: { hard: 5 } },
      { ...defaultLockLimits, locksPerMonth: 5 },
    ],
    [
      'zero is a limit, not silence',
      { locksPerMinute: { hard: 0 }, locksPerMonth: { hard: 0 }, recordBytes: { hard: 0 } },
      { locksPerMinute: 0, locksPerMonth: 0, recordBytes: 0 },
    ],
  ])('%s', (_case, own, expected) => {
    expect(resolveLockLimits(own)).toEqual(expected)
  })
})

describe('the headers of a refusal', () => {
  test.each([
    ['locksPerMinute', '"locks-per-minute";r=0;t=31', '"locks-per-minute";q=7;w=60'],
    ['locksPerMonth', '"locks-per-month";r=0;t=31', '"locks-per-month";q=7'],
    ['recordBytes', '"record-bytes";r=0;t=31', '"record-bytes";q=7;qu="content-bytes"'],
  ] as const)('%s', (limit, rateLimit, policy) => {
    expect(limitHeaders(limit, 7, 30_001)).toEqual({
      'Retry-After': '31',
      RateLimit: rateLimit,
      'RateLimit-Policy': policy,
    })
  })

  test.each([
    ['a moment', 1, '1'],
    ['nothing', 0, '1'],
    ['a whole second', 1000, '1'],
    ['a month', 2_678_400_000, '2678400'],
  ])('say whole seconds, rounded up and at least one: %s', (_case, retryAfterMs, seconds) => {
    expect(limitHeaders('locksPerMonth', 1, retryAfterMs)['Retry-After']).toBe(seconds)
  })
})

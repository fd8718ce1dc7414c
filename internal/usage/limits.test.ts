import { describe, expect, test } from 'bun:test'
import { type AnyLimitName, limitNames } from '#internal/tenants/index.ts'
import {
  type EffectiveLimits,
  effectiveLimits,
  emittedLimits,
  type LimitBounds,
  type LimitSources,
  limitHeaders,
} from './limits.ts'

const nowMs = Date.UTC(2026, 10, 21, 10)
const builtIn: EffectiveLimits = {
  locksPerMinute: { soft: null, hard: 60_000 },
  locksPerMonth: { soft: null, hard: null },
  eventsPerMinute: { soft: null, hard: null },
  eventsPerMonth: { soft: null, hard: null, over: 'accept' },
  recordBytes: { soft: null, hard: 1024 ** 3 },
}

const override = (limit: AnyLimitName, hard: number | null, expiresAtMs = nowMs + 1) => ({
  limit,
  hard,
  expiresAtMs,
})
const over = (soft: number | null, hard: number | null, how: 'accept' | 'refuse') => ({
  eventsPerMonth: { soft, hard, over: how },
})

describe('effectiveLimits', () => {
  test.each<[string, Partial<LimitSources>, Partial<EffectiveLimits>]>([
    ['built-in limits apply if no source sets a limit', {}, {}],
    [
      'a soft limit does not change the hard limit',
      { spec: { locksPerMinute: { soft: 7 } } },
      { locksPerMinute: { soft: 7, hard: 60_000 } },
    ],
    [
      'a limit in the spec replaces only the same limit',
      { spec: { locksPerMonth: { hard: 5 } } },
      { locksPerMonth: { soft: null, hard: 5 } },
    ],
    [
      '0 is a limit, and not a missing value',
      { spec: { locksPerMinute: { hard: 0, soft: 0 } }, defaults: { locksPerMinute: { hard: 9, soft: 9 } } },
      { locksPerMinute: { soft: 0, hard: 0 } },
    ],
    [
      'a configured default replaces the built-in limit',
      { defaults: { recordBytes: { hard: 10 }, eventsPerMinute: { soft: 1, hard: 2 } } },
      { recordBytes: { soft: null, hard: 10 }, eventsPerMinute: { soft: 1, hard: 2 } },
    ],
    [
      'soft and hard limits each come from the first source that sets them',
      { spec: { eventsPerMinute: { soft: 3 } }, defaults: { eventsPerMinute: { soft: 1, hard: 2 } } },
      { eventsPerMinute: { soft: 3, hard: 2 } },
    ],
    [
      'an override replaces only the hard limit',
      {
        spec: { locksPerMonth: { soft: 1, hard: 5 } },
        overrides: [override('recordBytes', 1), override('locksPerMonth', 50)],
      },
      { locksPerMonth: { soft: 1, hard: 50 }, recordBytes: { soft: null, hard: 1 } },
    ],
    [
      'an override can remove a limit',
      { overrides: [override('locksPerMinute', null)] },
      { locksPerMinute: { soft: null, hard: null } },
    ],
    ['an expired override has no effect', { overrides: [override('locksPerMinute', null, nowMs)] }, {}],
    [
      'the spec decides whether events over the monthly limit are refused',
      {
        spec: { eventsPerMonth: { hard: 5, over: 'refuse' } },
        defaults: { eventsPerMonth: { soft: 3, over: 'accept' } },
      },
      over(3, 5, 'refuse'),
    ],
    [
      'a default decides for a spec without that setting',
      { defaults: { eventsPerMonth: { over: 'refuse' } } },
      over(null, null, 'refuse'),
    ],
  ])('effectiveLimits: %s', (_case, sources, expected) => {
    const limits = effectiveLimits({ overrides: [], spec: {}, defaults: {}, nowMs, ...sources })
    expect(limits).toEqual({ ...builtIn, ...expected })
    expect(Object.keys(limits)).toEqual([...limitNames])
  })
})

describe('emittedLimits', () => {
  const kind = 'exports.rows'
  test.each<[string, Partial<LimitSources>, Record<string, LimitBounds>]>([
    ['no kind is limited if no source sets a limit', {}, {}],
    [
      'soft and hard limits each come from the first source that sets them, for each kind',
      {
        spec: {
          emitted: [
            { kind, soft: 3 },
            { kind: 'a', hard: 0 },
          ],
        },
        defaults: {
          emitted: [
            { kind, soft: 1, hard: 9 },
            { kind: 'z', soft: 2 },
          ],
        },
      },
      { a: { soft: null, hard: 0 }, [kind]: { soft: 3, hard: 9 }, z: { soft: 2, hard: null } },
    ],
    [
      'an override replaces the hard limit, and limits a kind that nothing else limits',
      {
        spec: { emitted: [{ kind, soft: 3, hard: 5 }] },
        overrides: [
          override(`${kind}PerMonth`, null),
          override('bPerMonth', 7),
          override('locksPerMonth', 1),
        ],
      },
      { b: { soft: null, hard: 7 }, [kind]: { soft: 3, hard: null } },
    ],
    ['an expired override limits no kind', { overrides: [override('bPerMonth', 7, nowMs)] }, {}],
  ])('emittedLimits: %s', (_case, sources, expected) => {
    const limits = emittedLimits({ overrides: [], spec: {}, defaults: {}, nowMs, ...sources })
    expect(Object.fromEntries(limits)).toEqual(expected)
    expect([...limits.keys()]).toEqual(Object.keys(expected))
  })
})

describe('limitHeaders', () => {
  test.each([
    ['locksPerMinute', '"locks-per-minute";r=0;t=31', '"locks-per-minute";q=7;w=60'],
    ['locksPerMonth', '"locks-per-month";r=0;t=31', '"locks-per-month";q=7'],
    ['eventsPerMinute', '"events-per-minute";r=0;t=31', '"events-per-minute";q=7;w=60'],
    ['eventsPerMonth', '"events-per-month";r=0;t=31', '"events-per-month";q=7'],
    ['recordBytes', '"record-bytes";r=0;t=31', '"record-bytes";q=7;qu="content-bytes"'],
  ] as const)('limitHeaders: describe the limit %s', (limit, rateLimit, policy) => {
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
  ])(
    'limitHeaders: Retry-After is in whole seconds, rounded up and at least one: %s',
    (_case, retryAfterMs, seconds) => {
      expect(limitHeaders('locksPerMonth', 1, retryAfterMs)['Retry-After']).toBe(seconds)
    },
  )
})

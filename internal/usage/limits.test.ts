import { describe, expect, test } from 'bun:test'
import { type LimitName, limitNames } from '#internal/tenants/index.ts'
import { type EffectiveLimits, effectiveLimits, type LimitSources, limitHeaders } from './limits.ts'

const nowMs = Date.UTC(2026, 10, 21, 10)
const builtIn: EffectiveLimits = {
  locksPerMinute: { soft: null, hard: 60_000 },
  locksPerMonth: { soft: null, hard: null },
  eventsPerMinute: { soft: null, hard: null },
  eventsPerMonth: { soft: null, hard: null, over: 'accept' },
  recordBytes: { soft: null, hard: 1024 ** 3 },
}

const override = (limit: LimitName, hard: number | null, untilMs = nowMs + 1) => ({ limit, hard, untilMs })
const over = (soft: number | null, hard: number | null, how: 'accept' | 'refuse') => ({
  eventsPerMonth: { soft, hard, over: how },
})

describe('the limits in force', () => {
  test.each<[string, Partial<LimitSources>, Partial<EffectiveLimits>]>([
    ['where nothing is said, the built-in ones', {}, {}],
    [
      'a limit that only warns refuses no more than it did without',
      { spec: { locksPerMinute: { soft: 7 } } },
      { locksPerMinute: { soft: 7, hard: 60_000 } },
    ],
    [
      'a limit of its own replaces that one alone',
      { spec: { locksPerMonth: { hard: 5 } } },
      { locksPerMonth: { soft: null, hard: 5 } },
    ],
    [
      'zero is a limit, not silence',
      { spec: { locksPerMinute: { hard: 0, soft: 0 } }, defaults: { locksPerMinute: { hard: 9, soft: 9 } } },
      { locksPerMinute: { soft: 0, hard: 0 } },
    ],
    [
      'a default that was set replaces the built-in one',
      { defaults: { recordBytes: { hard: 10 }, eventsPerMinute: { soft: 1, hard: 2 } } },
      { recordBytes: { soft: null, hard: 10 }, eventsPerMinute: { soft: 1, hard: 2 } },
    ],
    [
      'soft and hard each come from the strongest that has them',
      { spec: { eventsPerMinute: { soft: 3 } }, defaults: { eventsPerMinute: { soft: 1, hard: 2 } } },
      { eventsPerMinute: { soft: 3, hard: 2 } },
    ],
    [
      'an override replaces the hard one alone',
      {
        spec: { locksPerMonth: { soft: 1, hard: 5 } },
        overrides: [override('recordBytes', 1), override('locksPerMonth', 50)],
      },
      { locksPerMonth: { soft: 1, hard: 50 }, recordBytes: { soft: null, hard: 1 } },
    ],
    [
      'an override may lift a limit',
      { overrides: [override('locksPerMinute', null)] },
      { locksPerMinute: { soft: null, hard: null } },
    ],
    [
      'an override whose time is over means nothing',
      { overrides: [override('locksPerMinute', null, nowMs)] },
      {},
    ],
    [
      'the tenant’s own says what happens over its month’s events',
      {
        spec: { eventsPerMonth: { hard: 5, over: 'refuse' } },
        defaults: { eventsPerMonth: { soft: 3, over: 'accept' } },
      },
      over(3, 5, 'refuse'),
    ],
    [
      'a default says so for those without',
      { defaults: { eventsPerMonth: { over: 'refuse' } } },
      over(null, null, 'refuse'),
    ],
  ])('%s', (_case, sources, expected) => {
    const limits = effectiveLimits({ overrides: [], spec: {}, defaults: {}, nowMs, ...sources })
    expect(limits).toEqual({ ...builtIn, ...expected })
    expect(Object.keys(limits)).toEqual([...limitNames])
  })
})

describe('the headers of a refusal', () => {
  test.each([
    ['locksPerMinute', '"locks-per-minute";r=0;t=31', '"locks-per-minute";q=7;w=60'],
    ['locksPerMonth', '"locks-per-month";r=0;t=31', '"locks-per-month";q=7'],
    ['eventsPerMinute', '"events-per-minute";r=0;t=31', '"events-per-minute";q=7;w=60'],
    ['eventsPerMonth', '"events-per-month";r=0;t=31', '"events-per-month";q=7'],
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
  ])(
    'limitHeaders: Retry-After is in whole seconds, rounded up and at least one: %s',
    (_case, retryAfterMs, seconds) => {
      expect(limitHeaders('locksPerMonth', 1, retryAfterMs)['Retry-After']).toBe(seconds)
    },
  )
})

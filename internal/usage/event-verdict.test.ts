import { describe, expect, test } from 'bun:test'
import { decideEvent, type EventFacts, type EventVerdict } from './event-meter.ts'
import { effectiveLimits } from './limits.ts'

const nowMs = Date.UTC(2026, 10, 21, 10, 0, 30)
const minute = nowMs / 60_000 - 0.5
const monthEndSec = Date.UTC(2026, 11, 1) / 1000
const untilMonthEndMs = monthEndSec * 1000 - nowMs

const limitsOf = (perMinute?: number, perMonth?: number, over: 'accept' | 'refuse' = 'refuse') =>
  effectiveLimits({
    overrides: [],
    spec: {
      eventsPerMinute: { ...(perMinute !== undefined && { hard: perMinute }) },
      eventsPerMonth: { ...(perMonth !== undefined && { hard: perMonth }), over },
    },
    defaults: {},
    nowMs,
  })
const factsOf = (minuteCount: number, monthCount: number, more: Partial<EventFacts> = {}): EventFacts => ({
  counts: { minute, minuteCount, monthEndSec, monthCount },
  waiting: 0,
  nowMs,
  isRedisThere: true,
  ...more,
})
const limited = (limit: 'eventsPerMinute' | 'eventsPerMonth', quota: number, retryAfterMs: number) => ({
  kind: 'limited' as const,
  limit,
  quota,
  retryAfterMs,
})

describe('an event', () => {
  test.each<[string, ReturnType<typeof limitsOf>, EventFacts, EventVerdict]>([
    ['without limits is free', limitsOf(), factsOf(1e9, 1e9), { kind: 'free' }],
    ['under its limits is free', limitsOf(3, 9), factsOf(2, 8), { kind: 'free' }],
    [
      'at the limit of a minute waits for the next',
      limitsOf(3),
      factsOf(3, 3),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'counts what was committed here and not counted yet',
      limitsOf(3),
      factsOf(1, 1, { waiting: 2 }),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'is free in another minute than the counts are of',
      limitsOf(3),
      factsOf(3, 3, { nowMs: nowMs + 30_000 }),
      { kind: 'free' },
    ],
    [
      'is limited by a clock that is behind the counts',
      limitsOf(3),
      factsOf(3, 3, { nowMs: nowMs - 60_000 }),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'is refused by the month where that refuses',
      limitsOf(undefined, 9),
      factsOf(0, 9),
      limited('eventsPerMonth', 9, untilMonthEndMs),
    ],
    ['is marked by the month where that accepts', limitsOf(9, 9, 'accept'), factsOf(1, 9), { kind: 'over' }],
    [
      'over both is refused by the minute, also where the month accepts',
      limitsOf(1, 1, 'accept'),
      factsOf(1, 1),
      limited('eventsPerMinute', 1, 30_000),
    ],
    [
      'is free in another month than the counts are of',
      limitsOf(undefined, 9),
      factsOf(0, 9, { nowMs: monthEndSec * 1000 }),
      { kind: 'free' },
    ],
    [
      'of nothing allowed is refused at once',
      limitsOf(0),
      factsOf(0, 0),
      limited('eventsPerMinute', 0, 30_000),
    ],
    [
      'is never refused by the minute while Redis is away',
      limitsOf(0),
      factsOf(5, 5, { isRedisThere: false }),
      { kind: 'free' },
    ],
    [
      'is never refused by the month while Redis is away, but marked',
      limitsOf(undefined, 5),
      factsOf(5, 5, { isRedisThere: false }),
      { kind: 'over' },
    ],
  ])('%s', (_case, limits, facts, verdict) => {
    expect(decideEvent(limits, facts)).toEqual(verdict)
  })
})

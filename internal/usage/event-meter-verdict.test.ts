import { describe, expect, test } from 'bun:test'
import { decideEvent, type EventVerdict } from './event-meter.ts'
import { effectiveLimits } from './limits.ts'

type EventFacts = Parameters<typeof decideEvent>[1]

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

describe('decideEvent', () => {
  test.each<[string, ReturnType<typeof limitsOf>, EventFacts, EventVerdict]>([
    ['without limits is accepted', limitsOf(), factsOf(1e9, 1e9), { kind: 'free' }],
    ['under its limits is accepted', limitsOf(3, 9), factsOf(2, 8), { kind: 'free' }],
    [
      'at the limit per minute is refused until the next minute',
      limitsOf(3),
      factsOf(3, 3),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'is refused because of events that this process committed but did not count yet',
      limitsOf(3),
      factsOf(1, 1, { waiting: 2 }),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'is accepted in a minute after the minute of the counts',
      limitsOf(3),
      factsOf(3, 3, { nowMs: nowMs + 30_000 }),
      { kind: 'free' },
    ],
    [
      'is refused if the clock is behind the counts',
      limitsOf(3),
      factsOf(3, 3, { nowMs: nowMs - 60_000 }),
      limited('eventsPerMinute', 3, 30_000),
    ],
    [
      'is refused at the limit per month with over: refuse',
      limitsOf(undefined, 9),
      factsOf(0, 9),
      limited('eventsPerMonth', 9, untilMonthEndMs),
    ],
    [
      'is marked at the limit per month with over: accept',
      limitsOf(9, 9, 'accept'),
      factsOf(1, 9),
      { kind: 'over' },
    ],
    [
      'over both limits is refused because of the minute, even with over: accept',
      limitsOf(1, 1, 'accept'),
      factsOf(1, 1),
      limited('eventsPerMinute', 1, 30_000),
    ],
    [
      'is accepted in a month after the month of the counts',
      limitsOf(undefined, 9),
      factsOf(0, 9, { nowMs: monthEndSec * 1000 }),
      { kind: 'free' },
    ],
    ['is always refused at a limit of 0', limitsOf(0), factsOf(0, 0), limited('eventsPerMinute', 0, 30_000)],
    [
      'is never refused because of the minute while Redis is unavailable',
      limitsOf(0),
      factsOf(5, 5, { isRedisThere: false }),
      { kind: 'free' },
    ],
    [
      'is marked but never refused because of the month while Redis is unavailable',
      limitsOf(undefined, 5),
      factsOf(5, 5, { isRedisThere: false }),
      { kind: 'over' },
    ],
  ])('decideEvent: an event %s', (_case, limits, facts, verdict) => {
    expect(decideEvent(limits, facts)).toEqual(verdict)
  })
})

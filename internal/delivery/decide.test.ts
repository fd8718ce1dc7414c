import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type AttemptEnd,
  type Decision,
  decideNext,
  jitteredMs,
  type QueueChange,
  strongerChange,
  strongestChanges,
} from './decide.ts'

const nowMs = Date.UTC(2026, 10, 20, 12)
const schedule = { waitsMs: [0, 5_000, 300_000], jitterPercent: 0 }
const answered = (status: number, headers: { retryAfter?: string; webhookDelivery?: string } = {}) =>
  ({ kind: 'answered', status, ...headers }) as const
const unanswered = { kind: 'unanswered' } as const
const decide = (end: AttemptEnd, attempt = 1) => decideNext({ end, attempt, schedule, random: 0.5, nowMs })

const processed = { kind: 'processed', suspends: false } as const
const retryIn = (ms: number) => ({ kind: 'retry', dueAtMs: nowMs + ms }) as const
const failed = (cause: Extract<Decision, { kind: 'failed' }>['cause'], suspends = false) =>
  ({ kind: 'failed', cause, suspends }) as const

const hour = 3_600_000

describe('after an attempt', () => {
  test.each<[string, AttemptEnd, Decision]>([
    ['200', answered(200), processed],
    ['204', answered(204), processed],
    ['299', answered(299), processed],
    [
      'a success that wants no more',
      answered(200, { webhookDelivery: 'disable' }),
      { ...processed, suspends: true },
    ],
    ['a success beside abort-message', answered(200, { webhookDelivery: 'abort-message' }), processed],
    ['199', answered(199), retryIn(5_000)],
    ['301, which is not followed', answered(301), retryIn(5_000)],
    ['400', answered(400), retryIn(5_000)],
    ['500', answered(500), retryIn(5_000)],
    ['no answer', unanswered, retryIn(5_000)],
    ['410', answered(410), failed('gone', true)],
    ['disable', answered(500, { webhookDelivery: 'disable' }), failed('disabled', true)],
    ['disable in other letters', answered(500, { webhookDelivery: ' Disable ' }), failed('disabled', true)],
    ['abort-message', answered(422, { webhookDelivery: 'abort-message' }), failed('aborted')],
    ['410 with abort-message', answered(410, { webhookDelivery: 'abort-message' }), failed('gone', true)],
    ['a wish that is unknown', answered(500, { webhookDelivery: 'later' }), retryIn(5_000)],
    ['429 that asks for longer', answered(429, { retryAfter: '60' }), retryIn(60_000)],
    ['503 that asks for longer', answered(503, { retryAfter: '60' }), retryIn(60_000)],
    [
      '500 that asks for longer, which counts for nothing',
      answered(500, { retryAfter: '60' }),
      retryIn(5_000),
    ],
    ['429 that asks for sooner', answered(429, { retryAfter: '1' }), retryIn(5_000)],
    ['429 that asks for a day', answered(429, { retryAfter: '86400' }), retryIn(10 * hour)],
    ['429 with a date', answered(429, { retryAfter: 'Fri, 20 Nov 2026 12:02:00 GMT' }), retryIn(120_000)],
    [
      '429 with a date gone by',
      answered(429, { retryAfter: 'Fri, 20 Nov 2026 11:00:00 GMT' }),
      retryIn(5_000),
    ],
    [
      '429 with a date far off',
      answered(429, { retryAfter: 'Fri, 20 Nov 2099 11:00:00 GMT' }),
      retryIn(10 * hour),
    ],
    ['429 with nonsense', answered(429, { retryAfter: 'soon' }), retryIn(5_000)],
    ['429 with a negative number', answered(429, { retryAfter: '-5' }), retryIn(5_000)],
    ['429 with more digits than seconds have', answered(429, { retryAfter: '9'.repeat(40) }), retryIn(5_000)],
  ])('%s', (_what, end, decision) => {
    expect(decide(end)).toEqual(decision)
  })

  test('each failure waits as long as the schedule says, and the last one ends the event', () => {
    expect(decide(unanswered, 1)).toEqual(retryIn(5_000))
    expect(decide(unanswered, 2)).toEqual(retryIn(300_000))
    expect(decide(unanswered, 3)).toEqual(failed('attempts_exhausted'))
    expect(decide(answered(503, { retryAfter: '60' }), 3)).toEqual(failed('attempts_exhausted'))
    expect(decide(answered(200), 3)).toEqual(processed)
  })

  test('a schedule that a tenant made shorter meanwhile ends the event', () => {
    expect(decide(unanswered, 9)).toEqual(failed('attempts_exhausted'))
  })

  test('waits stay within the jitter, and a callback can only put them off, by 10 h at most', () => {
    const ends = fc.oneof(
      fc.constant<AttemptEnd>(unanswered),
      fc.record({
        kind: fc.constant('answered' as const),
        status: fc.constantFrom(301, 404, 429, 500, 503),
        retryAfter: fc.option(fc.oneof(fc.nat().map(String), fc.string()), { nil: undefined }),
      }),
    )
    fc.assert(
      fc.property(
        ends,
        fc.array(fc.integer({ min: 0, max: 24 * hour }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 0, max: 50 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 21 }),
        (end, waitsMs, jitterPercent, random, attempt) => {
          const decision = decideNext({ end, attempt, schedule: { waitsMs, jitterPercent }, random, nowMs })
          const waitMs = waitsMs[attempt]
          if (waitMs === undefined || decision.kind !== 'retry') {
            expect(waitMs).toBeUndefined()
            expect(decision).toEqual(failed('attempts_exhausted'))
            return
          }
          const waited = decision.dueAtMs - nowMs
          expect(waited).toBeGreaterThanOrEqual(Math.floor(waitMs * (1 - jitterPercent / 100)))
          expect(waited).toBeLessThanOrEqual(
            Math.max(Math.ceil(waitMs * (1 + jitterPercent / 100)), 10 * hour),
          )
          if (end.kind === 'unanswered') {
            expect(waited).toBeLessThanOrEqual(Math.ceil(waitMs * (1 + jitterPercent / 100)))
          }
        },
      ),
    )
  })

  test('jitter reaches as far down as up', () => {
    expect(jitteredMs(1000, 20, 0)).toBe(800)
    expect(jitteredMs(1000, 20, 0.5)).toBe(1000)
    expect(jitteredMs(1000, 20, 1 - Number.EPSILON)).toBe(1200)
    expect(jitteredMs(0, 50, 0.9)).toBe(0)
  })
})

const suspend: QueueChange = { kind: 'suspend', cause: 'gone' }
const open: QueueChange = { kind: 'open_breaker' }
const close: QueueChange = { kind: 'close_breaker' }
const release: QueueChange = { kind: 'release_probe' }

describe('of two changes of a queue', () => {
  test.each([
    ['a suspension outlasts an open breaker', suspend, open],
    ['a suspension outlasts a closed breaker', suspend, close],
    ['a suspension outlasts a probe that was put off', suspend, release],
    ['an open breaker outlasts a closed one', open, close],
    ['an open breaker outlasts a probe that was put off', open, release],
    ['a closed breaker outlasts a probe that was put off', close, release],
  ])('%s, in either order', (_what, stronger, weaker) => {
    expect(strongerChange(stronger, weaker)).toBe(stronger)
    expect(strongerChange(weaker, stronger)).toBe(stronger)
  })

  test('the first of two suspensions stands', () => {
    expect(strongerChange(suspend, { kind: 'suspend', cause: 'disabled' })).toBe(suspend)
  })
})

test('each queue gets its own change, and none where nothing changes', () => {
  const changes = strongestChanges([
    { tenantId: 'ten_a', queueChange: suspend },
    { tenantId: 'ten_b', queueChange: close },
    { tenantId: 'ten_a', queueChange: open },
    { tenantId: 'ten_c', queueChange: undefined },
    { tenantId: 'ten_a', queueChange: undefined },
  ] as unknown as Parameters<typeof strongestChanges>[0])
  expect([...changes]).toEqual([
    ['ten_a', suspend],
    ['ten_b', close],
  ] as never)
})

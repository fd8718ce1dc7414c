import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import type { QueueId } from '#internal/events/index.ts'
import {
  type AttemptResult,
  attemptOf,
  concludeAttempt,
  type FailedCause,
  jitteredMs,
  type QueueChange,
  strongestChanges,
} from './decide.ts'

const nowMs = Date.UTC(2026, 10, 20, 12)
const schedule = { waitsMs: [0, 5_000, 300_000], jitterPercent: 0 }
const answered = (
  status: number,
  headers: { retryAfter?: string | undefined; webhookDelivery?: string } = {},
) => ({ kind: 'answered', status, durationMs: 1, answer: '', headers }) as AttemptResult
const unanswered: AttemptResult = {
  kind: 'failed',
  cause: 'timeout',
  message: '',
  durationMs: 1,
  trace: { isReused: false },
}

/** Outcome of an attempt, without its record. */
interface Decision {
  readonly kind: 'processed' | 'later' | 'failed'
  readonly waitMs?: number
  readonly cause?: string | null
  readonly suspends?: string | undefined
}

function decide(result: AttemptResult, attempt = 1, given = { schedule, random: 0.5 }): Decision {
  const { ending, suspends } = concludeAttempt({
    attempt: attemptOf({ result, startedAtMs: nowMs }),
    result,
    attemptsBefore: attempt - 1,
    ...given,
    nowMs,
  })
  if (ending.kind === 'later') return { kind: 'later', waitMs: ending.dueAtMs - nowMs }
  return { kind: ending.kind, ...(ending.kind === 'failed' && { cause: ending.attempt.cause }), suspends }
}

const processed: Decision = { kind: 'processed' }
const retryIn = (waitMs: number): Decision => ({ kind: 'later', waitMs })
const failed = (cause: FailedCause | 'timeout', suspends?: string): Decision => ({
  kind: 'failed',
  cause,
  suspends,
})

const hour = 3_600_000

describe('concludeAttempt', () => {
  test.each<[string, AttemptResult, Decision]>([
    ['200', answered(200), processed],
    ['204', answered(204), processed],
    ['299', answered(299), processed],
    [
      'a success with a disable request',
      answered(200, { webhookDelivery: 'disable' }),
      { ...processed, suspends: 'disabled' },
    ],
    ['a success with abort-message', answered(200, { webhookDelivery: 'abort-message' }), processed],
    ['199', answered(199), retryIn(5_000)],
    ['301, which is not followed', answered(301), retryIn(5_000)],
    ['400', answered(400), retryIn(5_000)],
    ['500', answered(500), retryIn(5_000)],
    ['no answer', unanswered, retryIn(5_000)],
    ['410', answered(410), failed('gone', 'gone')],
    ['a disable request', answered(500, { webhookDelivery: 'disable' }), failed('disabled', 'disabled')],
    [
      'a disable request in mixed case',
      answered(500, { webhookDelivery: ' Disable ' }),
      failed('disabled', 'disabled'),
    ],
    ['an abort-message request', answered(422, { webhookDelivery: 'abort-message' }), failed('aborted')],
    ['410 with abort-message', answered(410, { webhookDelivery: 'abort-message' }), failed('gone', 'gone')],
    ['an unknown webhook-delivery request', answered(500, { webhookDelivery: 'later' }), retryIn(5_000)],
    ['429 with a longer Retry-After', answered(429, { retryAfter: '60' }), retryIn(60_000)],
    ['503 with a longer Retry-After', answered(503, { retryAfter: '60' }), retryIn(60_000)],
    ['500 with Retry-After, which is ignored', answered(500, { retryAfter: '60' }), retryIn(5_000)],
    ['429 with a shorter Retry-After', answered(429, { retryAfter: '1' }), retryIn(5_000)],
    ['429 with a Retry-After of one day', answered(429, { retryAfter: '86400' }), retryIn(10 * hour)],
    ['429 with a date', answered(429, { retryAfter: 'Fri, 20 Nov 2026 12:02:00 GMT' }), retryIn(120_000)],
    ['429 with a past date', answered(429, { retryAfter: 'Fri, 20 Nov 2026 11:00:00 GMT' }), retryIn(5_000)],
    [
      '429 with a distant date',
      answered(429, { retryAfter: 'Fri, 20 Nov 2099 11:00:00 GMT' }),
      retryIn(10 * hour),
    ],
    ['429 with an invalid Retry-After', answered(429, { retryAfter: 'soon' }), retryIn(5_000)],
    ['429 with a negative number', answered(429, { retryAfter: '-5' }), retryIn(5_000)],
    ['429 with more digits than seconds have', answered(429, { retryAfter: '9'.repeat(40) }), retryIn(5_000)],
  ])('concludeAttempt: decides as documented for %s', (_what, result, decision) => {
    expect(decide(result)).toEqual(decision)
  })

  test('concludeAttempt: after a failure the next attempt waits as scheduled, and the last failure ends the delivery cycle', () => {
    expect(decide(unanswered, 1)).toEqual(retryIn(5_000))
    expect(decide(unanswered, 2)).toEqual(retryIn(300_000))
    expect(decide(unanswered, 3)).toEqual(failed('timeout'))
    expect(decide(answered(503, { retryAfter: '60' }), 3)).toEqual(failed('attempts_exhausted'))
    expect(decide(answered(200), 3)).toEqual(processed)
  })

  test('concludeAttempt: if the schedule was shortened to fewer attempts than were made, a failure ends the delivery cycle', () => {
    expect(decide(answered(500), 9)).toEqual(failed('attempts_exhausted'))
  })

  test('concludeAttempt: the wait after a failure is as scheduled, within the jitter, or up to 10 h if the callback asks for it', () => {
    const results = fc.oneof(
      fc.constant(unanswered),
      fc
        .tuple(
          fc.constantFrom(301, 404, 429, 500, 503),
          fc.option(fc.oneof(fc.nat().map(String), fc.string()), { nil: undefined }),
        )
        .map(([status, retryAfter]) => answered(status, { retryAfter })),
    )
    fc.assert(
      fc.property(
        results,
        fc.array(fc.integer({ min: 0, max: 24 * hour }), { minLength: 1, maxLength: 20 }),
        fc.integer({ min: 0, max: 50 }),
        fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
        fc.integer({ min: 1, max: 21 }),
        (result, waitsMs, jitterPercent, random, attempt) => {
          const { kind, waitMs: waited = -1 } = decide(result, attempt, {
            schedule: { waitsMs, jitterPercent },
            random,
          })
          const waitMs = waitsMs[attempt]
          expect(kind).toBe(waitMs === undefined ? 'failed' : 'later')
          if (waitMs === undefined) return
          const longest = Math.ceil(waitMs * (1 + jitterPercent / 100))
          expect(waited).toBeGreaterThanOrEqual(Math.floor(waitMs * (1 - jitterPercent / 100)))
          expect(waited).toBeLessThanOrEqual(result === unanswered ? longest : Math.max(longest, 10 * hour))
        },
      ),
    )
  })

  test('jitteredMs: spreads a wait by the same amount in both directions', () => {
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

const changesOf = (...changes: readonly (readonly [tenant: string, QueueChange | undefined])[]) =>
  Object.fromEntries(
    strongestChanges(changes.map(([id, queueChange]) => ({ queueId: id as QueueId, queueChange }))),
  )

test.each([
  ['a suspension overrides an open breaker', suspend, open],
  ['a suspension overrides a closed breaker', suspend, close],
  ['a suspension overrides a released probe', suspend, release],
  ['an open breaker overrides a closed breaker', open, close],
  ['an open breaker overrides a released probe', open, release],
  ['a closed breaker overrides a released probe', close, release],
])('changes of a tenant queue: %s in either order', (_what, stronger, weaker) => {
  expect(changesOf(['a', stronger], ['a', weaker])).toEqual({ a: stronger })
  expect(changesOf(['a', weaker], ['a', stronger])).toEqual({ a: stronger })
})

test('changes of a tenant queue: the first of two suspensions is kept', () => {
  expect(changesOf(['a', suspend], ['a', { kind: 'suspend', cause: 'disabled' }])).toEqual({ a: suspend })
})

test('changes of tenant queues: each of several tenants gets its own change, and a tenant without changes gets none', () => {
  expect(changesOf(['a', suspend], ['b', close], ['a', open], ['c', undefined], ['a', undefined])).toEqual({
    a: suspend,
    b: close,
  })
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { findMembers } from '#internal/base/index.ts'
import { decideLifetimes, decideWaitMs, joinRecord, suggestRetryMs } from './record.ts'

describe('lifetimes', () => {
  test.each([
    ['a request without durations', {}, 2_592_000, { ttlMs: 86_400_000, lockMs: 60_000 }],
    ['a request without durations under a low maximum', {}, 30, { ttlMs: 30_000, lockMs: 30_000 }],
    [
      'a request with both durations',
      { ttlSeconds: 1000, lockSeconds: 900 },
      2000,
      { ttlMs: 1_000_000, lockMs: 900_000 },
    ],
    ['a lock over its ttl', { ttlSeconds: 5, lockSeconds: 900 }, 2000, { ttlMs: 5000, lockMs: 5000 }],
    ['a ttl below the default lock', { ttlSeconds: 1 }, 2000, { ttlMs: 1000, lockMs: 1000 }],
  ])('decideLifetimes: returns the expected durations for %s', (_case, asked, ttlSecondsMax, expected) => {
    expect(decideLifetimes(asked, ttlSecondsMax)).toEqual(expected)
  })

  const seconds = fc.integer({ min: 1, max: 315_360_000 })
  test('decideLifetimes: a lock never outlives its record, no default exceeds the maximum, and valid requested times are granted', () => {
    fc.assert(
      fc.property(
        fc.option(seconds, { nil: undefined }),
        fc.option(fc.integer({ min: 1, max: 900 }), { nil: undefined }),
        seconds,
        (ttlSeconds, lockSeconds, ttlSecondsMax) => {
          const { ttlMs, lockMs } = decideLifetimes({ ttlSeconds, lockSeconds }, ttlSecondsMax)
          expect(lockMs).toBeGreaterThan(0)
          expect(lockMs).toBeLessThanOrEqual(ttlMs)
          if (ttlSeconds === undefined) expect(ttlMs).toBeLessThanOrEqual(ttlSecondsMax * 1000)
          else expect(ttlMs).toBe(ttlSeconds * 1000)
          if (lockSeconds !== undefined) expect(lockMs).toBe(Math.min(lockSeconds * 1000, ttlMs))
        },
      ),
    )
  })
})

describe('retry and wait times', () => {
  const remaining = fc.double({ min: -1e15, max: 1e15, noNaN: true })

  test('suggestRetryMs: returns 1 to 1000 ms, and never less than a remaining duration of up to a second', () => {
    fc.assert(
      fc.property(remaining, (remainingMs) => {
        const retryMs = suggestRetryMs(remainingMs)
        expect(Number.isInteger(retryMs)).toBe(true)
        expect(retryMs).toBeWithin(1, 1001)
        if (remainingMs <= 1000) expect(retryMs).toBeGreaterThanOrEqual(remainingMs)
      }),
    )
  })

  test('decideWaitMs: a waiting caller sleeps at most a second, never past its deadline, and not at all after it', () => {
    const time = fc.double({ min: 0, max: 1e9, noNaN: true })
    fc.assert(
      fc.property(remaining, time, time, (remainingMs, deadlineMs, nowMs) => {
        const sleepMs = decideWaitMs(remainingMs, deadlineMs, nowMs)
        expect(sleepMs).toBeWithin(0, 1001)
        expect(sleepMs).toBeLessThanOrEqual(Math.max(0, deadlineMs - nowMs))
        if (deadlineMs > nowMs) expect(sleepMs).toBeGreaterThan(0)
        else expect(sleepMs).toBe(0)
      }),
    )
  })
})

test('joinRecord: keeps the text of headers and body unchanged', () => {
  const text = fc
    .tuple(fc.jsonValue(), fc.constantFrom(undefined, 1, '\t'))
    .map(([value, indent]) => JSON.stringify(value, null, indent))
  fc.assert(
    fc.property(
      fc.integer({ min: 100, max: 599 }),
      fc.dictionary(fc.string(), fc.string()),
      text,
      (status, headers, body) => {
        const record = joinRecord(status, JSON.stringify(headers), body)
        const members = findMembers(record)
        if (members.kind === 'repeated') throw new Error(`${members.name} stands twice`)
        const cut = Object.fromEntries(
          [...members.spans].map(([name, { start, end }]) => [name, record.slice(start, end)]),
        )
        expect(cut).toEqual({ status: String(status), headers: JSON.stringify(headers), body })
      },
    ),
  )
})

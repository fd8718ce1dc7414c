import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { backoffMs, Deadlines, parseTimestamp, within } from './time.ts'

const bounds = { firstMs: 100, maxMs: 1000 }

test.each([
  ['the minimum wait before the first retry', 0, 0, 50],
  ['the maximum wait before the first retry', 0, 1, 100],
  ['the maximum wait before the second retry', 1, 1, 200],
  ['the maximum wait before the fourth retry', 3, 1, 800],
  ['the configured maximum before the fifth retry', 4, 1, 1000],
  ['a wait below the configured maximum before the thousandth retry', 1000, 0.5, 750],
])('backoffMs: returns %s', (_case, attempt, random, waitMs) => {
  expect(backoffMs(attempt, bounds, random)).toBe(waitMs)
})

describe('a wait', () => {
  test('backoffMs: returns an integer in the upper half of a maximum that never decreases', () => {
    const random = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })
    const limits = fc.record({
      firstMs: fc.integer({ min: 2, max: 10_000 }),
      maxMs: fc.integer({ min: 10_000, max: 86_400_000 }),
    })
    fc.assert(
      fc.property(fc.nat(5000), limits, random, (attempt, limit, dice) => {
        const longest = backoffMs(attempt, limit, 1)
        const waitMs = backoffMs(attempt, limit, dice)
        expect(Number.isInteger(waitMs)).toBe(true)
        expect(waitMs).toBeGreaterThanOrEqual(Math.floor(longest / 2))
        expect(waitMs).toBeLessThanOrEqual(longest)
        expect(longest).toBeLessThanOrEqual(limit.maxMs)
        expect(backoffMs(attempt + 1, limit, 1)).toBeGreaterThanOrEqual(longest)
      }),
    )
  })
})

const never = () => new Promise<string>(() => undefined)

test('within: work that finishes before the deadline settles with its own result or error', async () => {
  expect(await within(1000, Promise.resolve('value'), () => 'late')).toBe('value')
  await expect(within(1000, Promise.reject(new Error('own')), () => 'late')).rejects.toThrow('own')
})

test('within: after the deadline, returns the result of `late` or throws its error', async () => {
  expect(await within(10, never(), () => 'late')).toBe('late')
  const thrown = within(10, never(), () => {
    throw new RangeError('too late')
  })
  await expect(thrown).rejects.toThrow(RangeError)
})

test('within: ignores an error that the work throws after the deadline', async () => {
  const { promise, reject } = Promise.withResolvers<string>()
  expect(await within(10, promise, () => 'late')).toBe('late')
  reject(new Error('unheard'))
  await expect(promise).rejects.toThrow('unheard')
})

describe('a guarded call', () => {
  test('Deadlines: a call that finishes before its deadline resolves with its own value', async () => {
    expect(await new Deadlines(1000).guard(Promise.resolve('value'), () => 'late')).toBe('value')
  })

  test('Deadlines: a call that fails before its deadline rejects with its own error', async () => {
    const failing = new Deadlines(1000).guard(Promise.reject(new Error('own')), () => 'late')
    await expect(failing).rejects.toThrow('own')
  })

  test('Deadlines: returns the result of `late` at most 50 ms after the deadline', async () => {
    const startedAt = performance.now()
    expect(await new Deadlines(100).guard(never(), () => 'late')).toBe('late')
    expect(performance.now() - startedAt).toBeWithin(99, 800)
  })

  test('Deadlines: throws the error of `late`', async () => {
    const late = new Deadlines(10).guard(never(), () => {
      throw new RangeError('too late')
    })
    await expect(late).rejects.toThrow(RangeError)
  })

  test('Deadlines: calls `late` once after a missed deadline, and never for a call that finished before its deadline', async () => {
    const deadlines = new Deadlines(30)
    const told: string[] = []
    const { promise, resolve } = Promise.withResolvers<string>()
    const guarded = deadlines.guard(promise, () => String(told.push('slow')))
    await deadlines.guard(Promise.resolve('quick'), () => String(told.push('quick')))
    await guarded
    resolve('at last')
    await deadlines.guard(never(), () => '')
    expect(told).toEqual(['slow'])
  })
})

test('Deadlines: 10 000 calls under one timer settle independently', async () => {
  const deadlines = new Deadlines(60)
  const ends = await Promise.all(
    Array.from({ length: 10_000 }, (_none, index) =>
      deadlines.guard(index % 2 === 0 ? Promise.resolve(`value ${index}`) : never(), () => `late ${index}`),
    ),
  )
  expect(ends).toEqual(ends.map((_end, index) => `${index % 2 === 0 ? 'value' : 'late'} ${index}`))
})

test.each([
  ['a time in UTC', '2026-11-01T08:30:00Z', Date.UTC(2026, 10, 1, 8, 30)],
  ['a time with an offset', '2026-11-01T08:30:00.25+02:00', Date.UTC(2026, 10, 1, 6, 30, 0, 250)],
  ['29 February of a leap year', '2028-02-29T00:00:00Z', Date.UTC(2028, 1, 29)],
  ['29 February of another year', '2026-02-29T00:00:00Z', undefined],
  ['30 February', '2026-02-30T00:00:00Z', undefined],
  ['31 April', '2026-04-31T00:00:00Z', undefined],
  ['month 13', '2026-13-01T00:00:00Z', undefined],
  ['24 o’clock', '2026-11-01T24:00:00Z', undefined],
  ['a leap second', '2026-12-31T23:59:60Z', undefined],
  ['an offset of 24 hours', '2026-11-01T00:00:00+24:00', undefined],
  ['a time without offset', '2026-11-01T08:30:00', undefined],
  ['a date', '2026-11-01', undefined],
  ['a line break at the end', '2026-11-01T08:30:00Z\n', undefined],
])('parseTimestamp: parses or refuses %s', (_case, text, timeMs) => {
  expect(parseTimestamp(text)).toBe(timeMs)
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { backoffMs } from './backoff.ts'

const bounds = { firstMs: 100, maxMs: 1000 }

test.each([
  ['the first, shortest', 0, 0, 50],
  ['the first, longest', 0, 1, 100],
  ['the second', 1, 1, 200],
  ['the fourth', 3, 1, 800],
  ['the fifth, at its bound', 4, 1, 1000],
  ['the thousandth', 1000, 0.5, 750],
])('%s', (_case, attempt, random, waitMs) => {
  expect(backoffMs(attempt, bounds, random)).toBe(waitMs)
})

describe('a wait', () => {
  test('is a whole number in the upper half of its bound, and the bound never shrinks', () => {
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

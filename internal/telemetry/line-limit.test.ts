import { expect, test } from 'bun:test'
import { createLineLimit } from './line-limit.ts'

test('line limit: writes at most so many lines per cause and second, and reports the others', () => {
  const suppressed: string[] = []
  let nowMs = 5_000
  const limit = createLineLimit({
    perSecondMax: 3,
    clock: { now: () => nowMs },
    onSuppressed: (cause) => suppressed.push(cause),
  })
  const written = (cause: string, lines: number) =>
    Array.from({ length: lines }, () => limit(cause)).filter(Boolean).length
  expect(written('a', 10)).toBe(3)
  expect(written('b', 2)).toBe(2)
  expect(suppressed).toEqual(Array(7).fill('a'))
  nowMs = 5_999
  expect(written('a', 1)).toBe(0)
  nowMs = 6_000
  expect(written('a', 10)).toBe(3)
})

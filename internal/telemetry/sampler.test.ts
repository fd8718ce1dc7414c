import { expect, test } from 'bun:test'
import { createSampler } from './sampler.ts'

const letThrough = (share: number, lines: number) => {
  const sampler = createSampler(() => share)
  return Array.from({ length: lines }, sampler).filter(Boolean).length
}

test.each([
  [1, 1_000, 1_000],
  [0.5, 1_000, 500],
  [0.25, 1_000, 250],
  [0.001, 10_000, 10],
  [0, 1_000, 0],
])('of a share of %d %d lines become %d', (share, lines, written) => {
  expect(Math.abs(letThrough(share, lines) - written)).toBeLessThanOrEqual(share > 0 && share < 1 ? 1 : 0)
})

test('a share that changes holds from the next line on', () => {
  let share = 0
  const sampler = createSampler(() => share)
  expect([sampler(), sampler()]).toEqual([false, false])
  share = 1
  expect([sampler(), sampler()]).toEqual([true, true])
})

import { expect, test } from 'bun:test'
import { boundsTable, type Held, isKept } from './bounds.ts'
import { quantiles, slopeOf } from './run-at-rate.ts'

test.each<[string, Omit<Held, 'name'>, boolean]>([
  ['at its lower bound', { value: 0.6, atLeast: 0.6 }, true],
  ['below its lower bound', { value: 0.599, atLeast: 0.6 }, false],
  ['at its upper bound', { value: 100, atMost: 100 }, true],
  ['above its upper bound', { value: 100.1, atMost: 100 }, false],
  ['of infinity', { value: Number.POSITIVE_INFINITY, atMost: 100 }, false],
  ['missing, with a lower bound', { value: Number.NaN, atLeast: 1 }, false],
  ['missing, with an upper bound', { value: Number.NaN, atMost: 1 }, false],
])('benchmark limit: a measurement %s is reported correctly as kept or missed', (name, held, kept) => {
  expect(isKept({ name, ...held })).toBe(kept)
  expect(boundsTable([{ name, ...held }]).at(-1)).toContain(kept ? '| kept |' : '| missed |')
})

test.each([
  ['grows steadily', [1, 3, 5, 7], 2],
  ['goes up and down', [5, 9, 5, 9, 5], 0],
  ['is empty', [0, 0, 0], 0],
  ['drains', [9, 6, 3, 0], -3],
])('slopeOf: returns the growth per sample of a queue that %s', (_case, samples, growth) => {
  expect(slopeOf(samples)).toBeCloseTo(growth)
})

test('quantiles: are taken from the samples, and are NaN without samples', () => {
  const times = Array.from({ length: 200 }, (_none, at) => 199 - at)
  expect(quantiles(times)).toEqual({ p50: 100, p99: 198 })
  expect(quantiles([7])).toEqual({ p50: 7, p99: 7 })
  expect(quantiles([])).toEqual({ p50: Number.NaN, p99: Number.NaN })
})

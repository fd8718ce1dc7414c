import { expect, test } from 'bun:test'
import { type Figures, growthOf, missedBounds } from './bounds.ts'

const well: Figures = {
  compared: [{ name: 'acquire', rateRatio: 0.7, rateRatioMin: 0.7, p99Ratio: 2 }],
  residentMb: 190,
  soakMb: [],
}

test('missedBounds: reports nothing for a run exactly at its limits', () => {
  expect(missedBounds(well)).toEqual([])
  expect(missedBounds({ ...well, soakMb: [90, 120, 130, 130, 130, 130, 131, 133, 136] })).toEqual([])
})

test.each<[string, Partial<Figures>, string]>([
  [
    'a low rate',
    { compared: [{ name: 'replay', rateRatio: 0.69, rateRatioMin: 0.7, p99Ratio: 1 }] },
    'replay: 0.69 of',
  ],
  [
    'a long tail',
    { compared: [{ name: 'acquire', rateRatio: 1, rateRatioMin: 0.7, p99Ratio: 2.01 }] },
    'p99 2.01 times',
  ],
  [
    'a missing measurement',
    { compared: [{ name: 'acquire', rateRatio: Number.NaN, rateRatioMin: 0.7, p99Ratio: 1 }] },
    'NaN of',
  ],
  ['memory after the load', { residentMb: 191 }, '191 MB'],
  ['memory during the soak', { soakMb: [100, 192] }, '192 MB'],
  ['memory that grows', { soakMb: [60, 70, 80, 90, 100, 110] }, 'grew 1.22 times'],
])('missedBounds: reports exactly one missed limit for %s', (_name, figures, text) => {
  const missed = missedBounds({ ...well, ...figures })
  expect(missed).toHaveLength(1)
  expect(missed[0]).toContain(text)
})

test('growthOf: divides the last third’s median by the middle third’s, and is undefined for a short soak', () => {
  expect(growthOf([1, 2, 3, 4, 5])).toBeUndefined()
  expect(growthOf([9, 9, 2, 2, 3, 3])).toBe(1.5)
  // A single outlier does not count as growth.
  expect(growthOf([1, 1, 1, 2, 2, 2, 2, 9, 2])).toBe(1)
})

import { describe, expect, test } from 'bun:test'
import { type Candidate, chooseVictims, type Need, rateOf } from './body-victims.ts'

interface Named extends Candidate {
  readonly name: string
}

const named = (name: string, changes: Partial<Candidate> = {}): Named => ({
  ...{ name, source: name, startedAtMs: 0, bytesArrived: 0, weight: 1 },
  ...changes,
})
const need: Need = {
  ...{ needed: 1, wanted: 1, sourceShare: 100 },
  ...{ nowMs: 10_000, graceMs: 500, requester: undefined },
}
const choose = (candidates: readonly Named[], changes: Partial<Need> = {}) =>
  chooseVictims(candidates, { ...need, ...changes }).map(({ name }) => name)

test('rateOf: counts bytes over time, and takes a body in its grace time to be as old', () => {
  expect([rateOf(1_000, 2_000, 500), rateOf(1_000, 10, 500)]).toEqual([500, 2_000])
})

describe('chooseVictims', () => {
  test('takes the lowest rate first, the older of two equal ones, and young ones last, the oldest first', () => {
    const bodies = [
      named('young', { startedAtMs: 9_900 }),
      named('less young', { startedAtMs: 9_800 }),
      named('fast', { bytesArrived: 2_000 }),
      named('nearly whole, but stalled', { bytesArrived: 1_000 }),
      named('new and fast', { bytesArrived: 1_000, startedAtMs: 9_000 }),
      named('header-only', { startedAtMs: 1_000 }),
      named('older header-only'),
    ]
    expect(choose(bodies, { needed: 7, wanted: 7 })).toEqual([
      'older header-only',
      'header-only',
      'nearly whole, but stalled',
      'fast',
      'new and fast',
      'less young',
      'young',
    ])
  })

  test('takes what is wanted where it can, and nothing where it is less than needed', () => {
    const bodies = [1, 2, 3].map((nth) => named(String(nth), { weight: 10, bytesArrived: nth }))
    expect(choose(bodies, { needed: 5, wanted: 15 })).toEqual(['1', '2'])
    expect(choose(bodies, { needed: 30, wanted: 30 })).toEqual(['1', '2', '3'])
    expect(choose(bodies, { needed: 31, wanted: 31 })).toEqual([])
    expect(choose(bodies, { needed: 5, wanted: 50 })).toEqual(['1', '2', '3'])
  })

  test('takes from the source with the most beyond its share until it has its share', () => {
    const many = [1, 2, 3, 4].map((nth) =>
      named(`many ${nth}`, { source: 'many', bytesArrived: 100_000 * nth }),
    )
    const bodies = [named('slowest'), ...many]
    expect(choose(bodies, { sourceShare: 1, needed: 3, wanted: 3 })).toEqual(['many 1', 'many 2', 'slowest'])
  })

  test('leaves a source its heaviest body, which may have any length', () => {
    const bodies = [named('large', { weight: 1_000, bytesArrived: 9_000 }), named('slow', { weight: 10 })]
    expect(choose(bodies, { sourceShare: 5 })).toEqual(['slow'])
  })

  test.each<[string, Partial<Candidate>, number, string[]]>([
    ['gives room of a slower body to a requester', { bytesArrived: 999 }, 100, ['other']],
    ['gives no room of a body as fast as the requester', { bytesArrived: 1_000 }, 100, []],
    ['gives no room of a young body to a requester that is compared', { startedAtMs: 9_900 }, 100, []],
  ])('%s', (_case, changes, rate, expected) => {
    expect(choose([named('other', changes)], { requester: { source: 'requester', rate } })).toEqual(expected)
  })

  test('gives a requester room of a faster body of another source that is beyond its share', () => {
    const bodies = [1, 2, 3].map((nth) => named(String(nth), { source: 'many', bytesArrived: 9_000 }))
    const requester = { source: 'requester', rate: 1 }
    expect(choose(bodies, { sourceShare: 1, requester })).toEqual(['1'])
    expect(choose(bodies, { sourceShare: 1, requester: { ...requester, source: 'many' } })).toEqual([])
  })
})

import { describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import {
  type Candidate,
  chooseVictims,
  type Need,
  scoreAfter,
  scoreAt,
  startProgress,
} from './body-victims.ts'

const kibibyte = 1024

interface Named extends Candidate {
  readonly name: string
}

const nowMs = 10_000
const named = (name: string, changes: Partial<Candidate> = {}): Named => ({
  name,
  source: name,
  startedAtMs: 0,
  lastByteAtMs: nowMs,
  score: 0,
  weight: 1,
  ...changes,
})
const need: Need = {
  needed: 1,
  wanted: 1,
  sourceShare: 100,
  nowMs,
  requester: undefined,
}
const choose = (candidates: readonly Named[], changes: Partial<Need> = {}) =>
  chooseVictims(candidates, { ...need, ...changes }).map(({ name }) => name)

describe('score', () => {
  test('scoreAt: the score halves every 500 ms without a byte', () => {
    const progress = { score: 1_000, lastByteAtMs: 0 }
    expect([0, 500, 1_000].map((atMs) => scoreAt(progress, atMs))).toEqual([1_000, 500, 250])
  })

  test('scoreAfter: adds the bytes received to what is left of the score, with a maximum of 128 KiB', () => {
    expect(scoreAfter({ score: 1_000, lastByteAtMs: 0 }, 100, 500)).toBe(600)
    expect(scoreAfter(startProgress(0), 25 * 1024 * kibibyte, 0)).toBe(128 * kibibyte)
  })
})

describe('chooseVictims', () => {
  test('chooseVictims: chooses the body with the lowest current score first, and the older of two equal bodies', () => {
    const bodies = [
      named('new', startProgress(nowMs)),
      named('1 MiB that stalled 2 s ago', { score: 128 * kibibyte, lastByteAtMs: 8_000 }),
      named('steady', { score: 50_000 }),
      named('header-only', { startedAtMs: 1_000 }),
      named('older header-only'),
    ]
    expect(choose(bodies, { needed: 5, wanted: 5 })).toEqual([
      'older header-only',
      'header-only',
      '1 MiB that stalled 2 s ago',
      'new',
      'steady',
    ])
  })

  test('chooseVictims: chooses bodies up to the wanted weight if possible, and none if the needed weight cannot be reached', () => {
    const bodies = [1, 2, 3].map((nth) => named(String(nth), { weight: 10, score: nth }))
    expect(choose(bodies, { needed: 5, wanted: 15 })).toEqual(['1', '2'])
    expect(choose(bodies, { needed: 30, wanted: 30 })).toEqual(['1', '2', '3'])
    expect(choose(bodies, { needed: 31, wanted: 31 })).toEqual([])
    expect(choose(bodies, { needed: 5, wanted: 50 })).toEqual(['1', '2', '3'])
  })

  test('chooseVictims: chooses bodies of the source furthest above its share until the source is within its share', () => {
    const many = [1, 2, 3, 4].map((nth) => named(`many ${nth}`, { source: 'many', score: 100 * nth }))
    const bodies = [named('slowest'), ...many]
    expect(choose(bodies, { sourceShare: 1, needed: 3, wanted: 3 })).toEqual(['many 1', 'many 2', 'slowest'])
  })

  test('chooseVictims: the heaviest body of a source does not count towards the share of the source', () => {
    const bodies = [named('large', { weight: 1_000, score: 9_000 }), named('slow', { weight: 10 })]
    expect(choose(bodies, { sourceShare: 5 })).toEqual(['slow'])
  })

  test.each<[string, number, string[]]>([
    ['a body of half the requester’s score is evicted', 500, ['other']],
    ['a body of more than half the requester’s score stays', 501, []],
  ])('chooseVictims: %s', (_case, score, expected) => {
    const requester = { source: 'requester', score: 1_000 }
    expect(choose([named('other', { score })], { requester })).toEqual(expected)
  })

  test('chooseVictims: a requester evicts a faster body if the source of that body is another one and above its share', () => {
    const bodies = [1, 2, 3].map((nth) => named(String(nth), { source: 'many', score: 9_000 }))
    const requester = { source: 'requester', score: 1 }
    expect(choose(bodies, { sourceShare: 1, requester })).toEqual(['1'])
    expect(choose(bodies, { sourceShare: 1, requester: { ...requester, source: 'many' } })).toEqual([])
  })
})

/** Pieces of a body: pause before each, and length. */
const pieces = fc.array(fc.record({ pauseMs: fc.nat(2_000), bytes: fc.nat(25 * 1024 * kibibyte) }), {
  maxLength: 8,
})

/** A body whose last piece arrived `quietMs` ago. */
function stalled(
  name: string,
  history: readonly { pauseMs: number; bytes: number }[],
  quietMs: number,
): Named {
  const startedAtMs = nowMs - quietMs - history.reduce((sum, { pauseMs }) => sum + pauseMs, 0)
  let progress = startProgress(startedAtMs)
  let atMs = startedAtMs
  for (const { pauseMs, bytes } of history) {
    atMs += pauseMs
    progress = { score: scoreAfter(progress, bytes, atMs), lastByteAtMs: atMs }
  }
  return named(name, { ...progress, startedAtMs })
}

/** A body at 64 KiB/s in pieces 100 ms apart. */
function steady(count: number, quietMs: number): Named {
  const history = Array.from({ length: count }, () => ({ pauseMs: 100, bytes: 6.4 * kibibyte }))
  return stalled('steady', history, quietMs)
}

test('chooseVictims: never evicts a body of 64 KiB/s before all bodies that stalled 2 s ago are evicted', () => {
  const others = fc.array(fc.record({ history: pieces, quietMs: fc.nat(5_000) }), {
    minLength: 1,
    maxLength: 12,
  })
  fc.assert(
    fc.property(others, fc.nat(100), fc.nat(100), fc.nat(12), (histories, count, quietMs, wanted) => {
      const bodies = histories.map(({ history, quietMs: ms }, nth) => stalled(String(nth), history, ms))
      const victims = choose([...bodies, steady(count, quietMs)], { needed: 1, wanted: wanted + 1 })
      if (!victims.includes('steady')) return
      for (const { name, lastByteAtMs } of bodies)
        if (nowMs - lastByteAtMs >= 2_000) expect(victims).toContain(name)
    }),
  )
})

test('chooseVictims: never evicts an upload of 256 KiB/s for a requester, regardless of the requester’s speed', () => {
  const history = Array.from({ length: 30 }, () => ({ pauseMs: 100, bytes: 25.6 * kibibyte }))
  fc.assert(
    fc.property(pieces, fc.nat(100), (sent, quietMs) => {
      const requester = { source: 'requester', score: scoreAt(stalled('requester', sent, 0), nowMs) }
      expect(choose([stalled('steady', history, quietMs)], { requester })).toEqual([])
    }),
  )
})

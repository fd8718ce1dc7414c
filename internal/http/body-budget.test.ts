import { describe, expect, test } from 'bun:test'
import { BodyBudget, isTooSlow } from './body-budget.ts'

const mebibyte = 1024 * 1024

function ownersOf(budget: BodyBudget) {
  const holding = (owner: string) => ({ owner, bytes: 0 })
  /** Takes for a new body; undefined when it got no room. */
  const take = (owner: string, bytes: number) => {
    const body = holding(owner)
    return budget.grow(body, bytes) ? body : undefined
  }
  return { take, holding }
}

describe('the budget of bodies', () => {
  test('gives one owner a quarter and keeps the rest for the others', () => {
    const budget = new BodyBudget(100)
    const { take } = ownersOf(budget)
    const first = take('a', 20)
    expect([take('a', 6), take('a', 5)]).toEqual([undefined, { owner: 'a', bytes: 5 }])
    for (const owner of ['b', 'c', 'd']) expect(take(owner, 25)).toBeDefined()
    expect(take('e', 1)).toBeUndefined()
    if (first) budget.free(first)
    expect([take('a', 20), budget.taken]).toEqual([{ owner: 'a', bytes: 20 }, 100])
  })

  test('gives one owner one body of any length, which may come piece by piece, with few bytes beside it', () => {
    const budget = new BodyBudget(1000)
    const { take, holding } = ownersOf(budget)
    const wide = holding('a')
    expect(take('a', 10)).toBeDefined()
    for (let bytes = 100; bytes <= 900; bytes += 100) expect(budget.grow(wide, bytes)).toBe(true)
    expect([take('a', 6), take('a', 5)]).toEqual([undefined, { owner: 'a', bytes: 5 }])
    expect(take('b', 50)).toBeDefined()
    budget.free(wide)
    const next = holding('a')
    expect([budget.grow(next, 235), budget.grow(next, 900)]).toEqual([true, true])
  })

  test('lets only one of two bodies of an owner go over its share', () => {
    const budget = new BodyBudget(1000)
    const { holding } = ownersOf(budget)
    const [one, other] = [holding('a'), holding('a')]
    expect([budget.grow(one, 125), budget.grow(other, 125)]).toEqual([true, true])
    expect([budget.grow(one, 126), budget.grow(other, 126)]).toEqual([false, false])
    budget.free(other)
    expect(budget.grow(one, 1000)).toBe(true)
  })

  test('gives bodies over 1 MiB a half, or one of them, and leaves the other half to short ones', () => {
    const budget = new BodyBudget(16 * mebibyte)
    const { take, holding } = ownersOf(budget)
    const long = ['a', 'b', 'c', 'd'].map((owner) => take(owner, 2 * mebibyte))
    expect(long).not.toContain(undefined)
    expect(take('e', mebibyte + 1)).toBeUndefined()
    const [first, ...others] = long
    if (first) expect(budget.grow(first, first.bytes + 1)).toBe(false)
    for (const owner of ['e', 'f', 'g', 'h', 'i', 'j', 'k', 'l']) expect(take(owner, mebibyte)).toBeDefined()
    for (const body of others) if (body) budget.free(body)
    const lone = holding('z')
    if (first) budget.free(first)
    expect(budget.grow(lone, 8 * mebibyte)).toBe(true)
  })

  test('gives a lone body over 1 MiB more than the half', () => {
    const budget = new BodyBudget(48 * mebibyte)
    const { take, holding } = ownersOf(budget)
    const lone = holding('a')
    for (let length = 1; length <= 25; length++) expect(budget.grow(lone, length * mebibyte)).toBe(true)
    expect([take('b', mebibyte + 1), take('b', mebibyte)]).toEqual([
      undefined,
      { owner: 'b', bytes: mebibyte },
    ])
    budget.free(lone, mebibyte)
    expect(take('b', 2 * mebibyte)).toBeDefined()
  })

  test('is not changed by a refusal, nor by giving back twice', () => {
    const budget = new BodyBudget(8)
    const { take, holding } = ownersOf(budget)
    expect(take('a', 9)).toBeUndefined()
    expect(budget.taken).toBe(0)
    const body = holding('a')
    expect([budget.grow(body, 8), budget.grow(body, 8), budget.taken]).toEqual([true, true, 8])
    budget.free(body, 3)
    budget.free(body, 3)
    expect([body.bytes, budget.taken]).toEqual([3, 3])
    budget.free(body)
    budget.free(body)
    expect([body.bytes, budget.taken]).toEqual([0, 0])
  })
})

describe('a body', () => {
  const { pace } = new BodyBudget(1)
  test.each([
    ['is in time in its first five seconds, whatever came', 1, 5_000, false],
    ['is too slow with one byte after them', 1, 5_001, true],
    ['is in time with 16 KiB for each second more', 80 * 1024, 10_000, false],
    ['is too slow with less', 80 * 1024 - 1, 10_000, true],
    ['is in time for a minute at a good rate', 24 * mebibyte, 60_000, false],
    ['is too slow after it at any rate', 25 * mebibyte, 60_001, true],
  ])('%s', (_case, bytes, elapsedMs, slow) => {
    expect(isTooSlow(pace, bytes, elapsedMs)).toBe(slow)
  })
})

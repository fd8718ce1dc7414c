import { afterEach, describe, expect, test } from 'bun:test'
import fc from 'fast-check'
import { holding } from '#test/support/intake/body-holding.ts'
import { BodyBudget, type BudgetBounds, type Holding, isLate, type Pace } from './body-budget.ts'

const kibibyte = 1024
const mebibyte = 1024 * kibibyte
const graceMs = 500

const begun: { budget: BodyBudget; body: Holding }[] = []
afterEach(() => {
  for (const { budget, body } of begun.splice(0)) budget.finish(body)
})

/** A budget with complete and unfinished bodies; aborted ones are listed by name. */
function open(bounds: BudgetBounds) {
  const budget = new BodyBudget(bounds)
  const givenUp: string[] = []
  /** A complete body; undefined when it found no room. */
  const take = (owner: string, bytes: number, nowMs = 0) => {
    const body = holding(owner, { bytesDeclared: bytes })
    return budget.grow(body, bytes, nowMs) ? body : undefined
  }
  /** An unfinished body since a time, of which some bytes have arrived. */
  const wait = (
    name: string,
    { bytes = 0, sinceMs = 0, owner = name, source = name, bytesDeclared = 25 * mebibyte },
  ) => {
    const body = holding(owner, { source, bytesDeclared })
    begun.push({ budget, body })
    budget.begin(body, sinceMs, (why) => givenUp.push(`${name} ${why}`))
    return arrive(body, bytes, sinceMs) ? body : undefined
  }
  const arrive = (body: Holding, bytes: number, nowMs: number) => {
    if (body.arrival) budget.progress(body, bytes - body.arrival.bytesArrived, nowMs)
    return budget.grow(body, bytes, nowMs)
  }
  return { budget, givenUp, take, wait, arrive }
}

describe('shares of the budget', () => {
  test('budget: the small bodies of one owner get at most a quarter of the budget', () => {
    const { budget, take } = open({ bytesMax: 100 })
    const first = take('a', 20)
    expect([take('a', 6), take('a', 5)?.bytes]).toEqual([undefined, 5])
    for (const owner of ['b', 'c', 'd']) expect(take(owner, 25)).toBeDefined()
    expect(take('e', 1)).toBeUndefined()
    if (first) budget.free(first)
    expect([take('a', 20)?.bytes, budget.taken]).toEqual([20, 100])
  })

  test('budget: large bodies leave a sixth of the budget to small bodies, also to those of the same owner', () => {
    const { take } = open({ bytesMax: 48 * mebibyte })
    for (const owner of ['a', 'b', 'c', 'd'])
      for (let nth = 0; nth < 10; nth++) expect(take(owner, mebibyte)).toBeDefined()
    expect(take('e', 65 * kibibyte)).toBeUndefined()
    for (let nth = 0; nth < 128; nth++) expect(take('a', 64 * kibibyte)).toBeDefined()
    expect(take('b', 16 * kibibyte)).toBeUndefined()
  })

  test('budget: while one body exceeds its owner’s limit, the owner gets few other large bodies and any number of small ones', () => {
    const { budget, take, wait, arrive } = open({ bytesMax: 48 * mebibyte })
    const wide = wait('a', {})
    if (!wide) throw new Error('nothing is needed for it')
    expect(take('a', 700 * kibibyte)).toBeDefined()
    for (let length = 1; length <= 25; length++) expect(arrive(wide, length * mebibyte, 0)).toBe(true)
    budget.finish(wide)
    expect([take('a', 69 * kibibyte), take('a', 68 * kibibyte)?.bytes]).toEqual([undefined, 68 * kibibyte])
    for (let nth = 0; nth < 500; nth++) expect(take('a', 16 * kibibyte)).toBeDefined()
    budget.free(wide)
    expect(take('a', 5 * mebibyte)).toBeDefined()
  })

  test('budget: all bodies over 1 MiB get half of the budget together, except that a single one can exceed the half', () => {
    const { budget, take } = open({ bytesMax: 48 * mebibyte })
    const long = ['a', 'b', 'c', 'd', 'e', 'f'].map((owner) => take(owner, 4 * mebibyte))
    expect(long).not.toContain(undefined)
    expect([take('g', mebibyte + 1), take('g', mebibyte)?.bytes]).toEqual([undefined, mebibyte])
    for (const body of long) if (body) budget.free(body)
    expect(take('z', 25 * mebibyte)).toBeDefined()
    expect([take('y', mebibyte + 1), take('y', mebibyte)?.bytes]).toEqual([undefined, mebibyte])
  })

  test('budget: a chunked body counts as small up to 64 KiB', () => {
    const { budget, take, wait, arrive } = open({ bytesMax: 48 * mebibyte })
    for (const owner of ['a', 'b', 'c', 'd'])
      for (let nth = 0; nth < 10; nth++) expect(take(owner, mebibyte)).toBeDefined()
    const body = wait('e', { bytesDeclared: undefined })
    const chunked = holding('f')
    expect([budget.grow(chunked, 64 * kibibyte, 0), budget.grow(chunked, 65 * kibibyte, 0)]).toEqual([
      true,
      false,
    ])
    expect(body && arrive(body, 65 * kibibyte, 0)).toBe(false)
    budget.free(chunked)
    expect(budget.taken).toBe(40 * mebibyte)
  })

  test('budget: a refused charge and a repeated call of `free` have no effect', () => {
    const { budget, take } = open({ bytesMax: 8 })
    expect(take('a', 9)).toBeUndefined()
    expect(budget.taken).toBe(0)
    const body = take('a', 8)
    if (!body) throw new Error('it fits')
    budget.free(body, 3)
    budget.free(body, 3)
    expect([body.bytes, budget.taken]).toEqual([3, 3])
    budget.free(body)
    budget.free(body)
    expect([body.bytes, budget.taken]).toEqual([0, 0])
  })
})

describe('eviction', () => {
  test('budget: evicts bodies to make room for received bytes, but not for a declared length', () => {
    const { budget, givenUp, wait, take } = open({ bytesMax: 48 * mebibyte })
    for (let nth = 0; nth < 2_000; nth++) wait(`header-only ${nth}`, {})
    expect([budget.taken, givenUp]).toEqual([0, []])
    expect(take('a', mebibyte, 10_000)).toBeDefined()
  })

  test('budget: a small body evicts the body with the least recent progress', () => {
    const { givenUp, wait, take } = open({ bytesMax: 64 * kibibyte, pace: { graceMs } })
    wait('stalled', { bytes: 16 * kibibyte, bytesDeclared: 17 * kibibyte })
    for (const owner of ['b', 'c', 'd'])
      wait(owner, { bytes: 16 * kibibyte, sinceMs: 5_000, bytesDeclared: 17 * kibibyte })
    expect(take('e', kibibyte, 9_000)).toBeDefined()
    expect(givenUp).toEqual(['stalled evicted'])
  })

  test('budget: a complete body evicts others regardless of their progress, even if its last piece has just arrived', () => {
    const { givenUp, wait, take, arrive } = open({ bytesMax: 48 * mebibyte, pace: { graceMs } })
    const last = wait('last piece missing', { bytesDeclared: mebibyte })
    for (let nth = 0; nth < 10; nth++)
      for (const owner of ['a', 'b', 'c', 'd'])
        wait(`${owner}${nth}`, { owner, bytes: mebibyte - 1, sinceMs: 900 })
    if (!last) throw new Error('nothing is needed for it')
    expect(arrive(last, mebibyte - 1, 901)).toBe(false)
    expect(givenUp).toEqual([])
    expect(arrive(last, mebibyte, 902)).toBe(true)
    expect(givenUp).not.toEqual([])
    expect(take('e', 100 * kibibyte, 902)).toBeDefined()
  })

  test('budget: a small body of an owner that has reached its limit evicts another body of the same owner', () => {
    const { givenUp, wait, take } = open({ bytesMax: 64 * kibibyte, pace: { graceMs } })
    wait('stalled', { owner: 'a', bytes: 16 * kibibyte - 1, bytesDeclared: 16 * kibibyte })
    wait('of another owner', { bytes: 10, bytesDeclared: 16 * kibibyte })
    expect(take('a', kibibyte, 9_000)).toBeDefined()
    expect(givenUp).toEqual(['stalled evicted'])
  })

  test('budget: a large body evicts a stalled body of any size, but no body with similar progress', () => {
    const { givenUp, wait, arrive } = open({ bytesMax: 48 * mebibyte, pace: { graceMs } })
    const burst = wait('burst', { owner: 'a' })
    const steady = wait('steady', { owner: 'a' })
    const other = wait('other', { owner: 'a' })
    if (!burst || !steady || !other) throw new Error('nothing is needed for them')
    expect(arrive(burst, 20 * mebibyte, 0)).toBe(true)
    for (let nth = 1; nth < 6; nth++) expect(arrive(steady, 120 * kibibyte * nth, 300 * nth)).toBe(true)
    expect(arrive(steady, mebibyte, 1_800)).toBe(true)
    expect(givenUp).toEqual(['burst evicted'])
    for (let nth = 2; nth <= 20; nth++) {
      expect(arrive(steady, nth * mebibyte, 1_800 + 100 * nth)).toBe(true)
    }
    expect(arrive(other, mebibyte, 3_850)).toBe(false)
    expect(arrive(steady, 25 * mebibyte, 3_900)).toBe(true)
    expect(givenUp).toEqual(['burst evicted'])
  })

  test('budget: a complete body is never evicted', () => {
    const { givenUp, take } = open({ bytesMax: 100 })
    for (const owner of ['a', 'b', 'c', 'd']) take(owner, 25)
    expect([take('e', 1, 60_000), givenUp]).toEqual([undefined, []])
  })

  test('budget: evicts no body if all evictions together would free too little', () => {
    const { givenUp, take, wait } = open({ bytesMax: 100 })
    for (const owner of ['a', 'b', 'c']) take(owner, 25)
    wait('d', { bytes: 10, bytesDeclared: 20 })
    expect([take('e', 30, 60_000), givenUp]).toEqual([undefined, []])
  })

  test('budget: above the maximum of unfinished bodies, the body with the least recent progress is evicted', () => {
    const { budget, givenUp, wait } = open({ bytesMax: mebibyte, bodiesMax: 3, pace: { graceMs } })
    wait('older', { sinceMs: 0, bytes: 1_000 })
    wait('header-only', { sinceMs: 1_000 })
    wait('young', { sinceMs: 1_900 })
    wait('new', { sinceMs: 2_000 })
    wait('newer', { sinceMs: 2_000 })
    wait('newest', { sinceMs: 2_001 })
    expect(givenUp).toEqual(['older evicted', 'header-only evicted', 'young evicted'])
    expect(budget.arriving).toBe(3)
  })

  test('budget: bodies of a source above its share are evicted first, regardless of their speed', () => {
    const { givenUp, wait } = open({ bytesMax: mebibyte, bodiesMax: 64, pace: { graceMs } })
    for (let nth = 0; nth < 60; nth++) wait(`attacker ${nth}`, { source: 'attacker', bytes: 100 })
    for (let nth = 0; nth < 4; nth++) wait(`other ${nth}`, { source: `other ${nth}` })
    for (let nth = 0; nth < 50; nth++) wait(`newcomer ${nth}`, { source: `new ${nth}`, sinceMs: 1_000 })
    expect(givenUp).toHaveLength(50)
    for (const name of givenUp) expect(name).toStartWith('attacker')
  })
})

test('budget: after any sequence of calls, the total equals the sum of all bodies, stays within the limits, and returns to 0', () => {
  const lengths = fc.constantFrom(1, 900, 1_024, 16_384, 20_000, 65_536, 600_000, 3_000_000)
  const step = fc.record({
    act: fc.constantFrom('take', 'wait', 'arrive', 'finish', 'free', 'late'),
    which: fc.nat(30),
    owner: fc.constantFrom('a', 'b', 'c'),
    source: fc.constantFrom('x', 'y'),
    bytes: lengths,
    ms: fc.nat(4_000),
  })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 120 }), (steps) => {
      const bytesMax = 4 * mebibyte
      const budget = new BodyBudget({ bytesMax, bodiesMax: 8, pace: { graceMs } })
      const bodies: Holding[] = []
      let nowMs = 0
      for (const { act, which, owner, source, bytes, ms } of steps) {
        nowMs += ms
        const body = bodies[which % Math.max(bodies.length, 1)]
        if (act === 'take' || act === 'wait') {
          const made = holding(owner, { source, bytesDeclared: which % 2 ? bytes : null })
          bodies.push(made)
          if (act === 'wait') budget.begin(made, nowMs, () => undefined)
          if (act === 'take') budget.grow(made, bytes, nowMs)
        } else if (body && act === 'arrive') {
          budget.progress(body, bytes, nowMs)
          budget.grow(body, body.bytes + bytes, nowMs)
        } else if (body && act === 'finish') budget.finish(body)
        else if (body && act === 'free') {
          budget.finish(body)
          budget.free(body, Math.min(body.bytes, bytes))
        } else budget.endLate(nowMs)
        const held = bodies.reduce((sum, each) => sum + each.bytes, 0)
        expect(budget.taken).toBe(held)
        expect(held).toBeLessThanOrEqual(bytesMax)
        expect(budget.arriving).toBe(bodies.filter(({ arrival }) => arrival).length)
        expect(budget.arriving).toBeLessThanOrEqual(8)
      }
      for (const body of bodies) {
        budget.finish(body)
        budget.free(body)
      }
      expect([budget.taken, budget.arriving]).toEqual([0, 0])
      // No pool keeps a reservation: the whole limit of each class is available again.
      const whole = holding('a', { bytesDeclared: 2 * mebibyte })
      expect(budget.grow(whole, 2 * mebibyte, nowMs)).toBe(true)
    }),
  )
})

describe('isLate', () => {
  const { pace } = new BodyBudget({ bytesMax: 1 })
  const late = (bytesDeclared: number | null, bytesArrived: number, nowMs: number, lastByteAtMs = nowMs) =>
    isLate(pace satisfies Pace, bytesDeclared, { startedAtMs: 0, lastByteAtMs, bytesArrived }, nowMs)
  test.each([
    ['a body is in time in its first five seconds at any rate', null, 1, 5_000, false],
    ['a body of one byte is late after five seconds', null, 1, 5_001, true],
    ['a body with 16 KiB for each further second is in time', null, 80 * kibibyte, 10_000, false],
    ['a body with less than 16 KiB for each further second is late', null, 80 * kibibyte - 1, 10_000, true],
    ['a body at a good rate is in time for a minute', 25 * mebibyte, 24 * mebibyte, 60_000, false],
    ['a body is late after a minute at any rate', 25 * mebibyte, 25 * mebibyte, 60_001, true],
    ['a short body is in time for ten seconds at any rate', 64 * kibibyte, 1, 10_000, false],
    ['a short body is late after ten seconds', 64 * kibibyte, 60_000, 10_001, true],
  ])('isLate: %s', (_case, bytesDeclared, bytes, nowMs, expected) => {
    expect(late(bytesDeclared, bytes, nowMs)).toBe(expected)
  })

  test('isLate: a body is late after five seconds without a byte', () => {
    expect([late(null, mebibyte, 8_000, 3_000), late(null, mebibyte, 8_001, 3_000)]).toEqual([false, true])
  })
})

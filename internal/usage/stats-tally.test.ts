import { describe, expect, test } from 'bun:test'
import { someTenantId } from '#test/support/tenants/directory-tenant.ts'
import { percentileMs, statsStepMs } from './read-stats.ts'
import { bucketOf, countColumns, latencyBoundsMs, type StatsCell, StatsTally } from './stats-tally.ts'

const startMs = Date.parse('2026-11-01T12:00:00Z')
const [one, other] = [someTenantId(), someTenantId()]

function movedTally(bounds?: { cellsMax: number; causesMax: number }) {
  const clock = { nowMs: startMs + 1_500, now: () => clock.nowMs }
  return { clock, tally: new StatsTally(clock, bounds) }
}

/** Counts by name. */
const named = ({ counts }: StatsCell) =>
  Object.fromEntries(countColumns.flatMap((name, at) => (counts[at] ? [[name, counts[at]]] : [])))

describe('stats tally', () => {
  test('stats tally: counts by tenant, minute, cause and latency, and returns each count once', () => {
    const { clock, tally } = movedTally()
    tally.count(one, 'accepted')
    tally.count(one, 'accepted')
    tally.countRefused(one, 'signature_mismatch')
    tally.countDelivered(other, 20)
    clock.nowMs += 60_000
    tally.countDelivered(one, undefined)
    tally.countRefused(one, 'signature_mismatch')
    const seen = tally
      .take(100)
      .map((cell) => [cell.tenantId, cell.atMs - startMs, named(cell), [...cell.causes]])
    expect(seen).toEqual([
      [one, 0, { accepted: 2, refused: 1 }, [['signature_mismatch', 1]]],
      [other, 0, { delivered: 1, latency_25: 1 }, []],
      [one, 60_000, { delivered: 1, refused: 1 }, [['signature_mismatch', 1]]],
    ])
    expect([tally.take(100), tally.size, tally.dropped]).toEqual([[], 0, 0])
    tally.count(one, 'failed')
    expect(tally.take(100).map(named)).toEqual([{ failed: 1 }])
  })

  test('stats tally: returns at most the requested number of cells, oldest first, and keeps the others', () => {
    const { clock, tally } = movedTally()
    for (let minute = 0; minute < 3; minute += 1) {
      for (const id of [one, other]) tally.count(id, 'accepted')
      clock.nowMs += 60_000
    }
    const minutes = () => tally.take(4).map(({ atMs }) => (atMs - startMs) / 60_000)
    expect([minutes(), tally.size, minutes(), minutes()]).toEqual([[0, 0, 1, 1], 2, [2, 2], []])
  })

  test('stats tally: counts outcomes above its memory limit as dropped, and causes above the maximum as `other`', () => {
    const { tally } = movedTally({ cellsMax: 1, causesMax: 2 })
    for (const cause of ['a', 'b', 'c', 'd', 'a']) tally.countRefused(one, cause)
    tally.count(other, 'accepted')
    tally.countDelivered(other, 1)
    expect(tally.dropped).toBe(2)
    const [cell, ...more] = tally.take(9)
    expect([[...(cell?.causes ?? [])], more]).toEqual([
      [
        ['a', 2],
        ['b', 1],
        ['other', 2],
      ],
      [],
    ])
  })

  test('stats tally: keeps the maximum queue depth of each minute', () => {
    const { clock, tally } = movedTally()
    tally.noteQueue({ dueCount: 5, oldestAgeMs: 10 })
    tally.noteQueue({ dueCount: 2, oldestAgeMs: 90 })
    clock.nowMs += 60_000
    tally.noteQueue({ dueCount: 0, oldestAgeMs: 0 })
    expect([...tally.takeQueue()]).toEqual([
      [startMs, { dueCount: 5, oldestAgeMs: 90 }],
      [startMs + 60_000, { dueCount: 0, oldestAgeMs: 0 }],
    ])
    expect(tally.takeQueue().size).toBe(0)
  })

  test('stats tally: a count takes less than a microsecond with a thousand tenants', () => {
    const { tally } = movedTally()
    const ids = Array.from({ length: 1_000 }, () => someTenantId())
    const rounds = () => {
      const startedMs = performance.now()
      for (let nth = 0; nth < 100; nth += 1) for (const id of ids) tally.countDelivered(id, nth)
      return ((performance.now() - startedMs) * 1_000) / 100_000
    }
    // Uses the fastest of several runs, because the machine also does other work.
    expect(Math.min(...Array.from({ length: 10 }, rounds))).toBeLessThan(1)
  })
})

describe('percentiles', () => {
  const buckets = (counts: Record<number, number>) =>
    Array.from({ length: latencyBoundsMs.length + 1 }, (_none, at) => counts[at] ?? 0)

  test.each([
    ['is undefined without latencies', {}, 0.5, undefined],
    ['interpolates within a bucket', { 1: 100 }, 0.5, 18],
    ['interpolates from 0 in the first bucket', { 0: 4 }, 0.5, 5],
    ['finds the bucket that contains the share', { 0: 90, 6: 10 }, 0.95, 750],
    ['returns the bound of the highest bucket for a share of 1', { 0: 99, 2: 1 }, 1, 50],
    ['returns the last bound for latencies beyond all bounds', { 13: 3 }, 0.5, 3_600_000],
  ])('percentileMs: %s', (_name, counts, share, expected) => {
    expect(percentileMs(buckets(counts), share)).toBe(expected)
  })

  test('bucketOf: a latency falls into the first bucket whose upper bound it does not exceed', () => {
    expect([0, 10, 10.5, 3_600_000, 3_600_001].map(bucketOf)).toEqual([0, 0, 1, 12, 13])
  })
})

test('statsStepMs: many tenants are read by hour, and few tenants or a short span by minute', () => {
  const minutes = (hours: number, tenants: number) => statsStepMs(hours * 3_600_000, tenants) / 60_000
  expect([minutes(24, 10), minutes(24, 50), minutes(6, 50), minutes(720, 1_000)]).toEqual([10, 60, 2, 240])
})

test.each([
  ['an hour', 1, 1],
  ['six hours', 6, 2],
  ['a day', 24, 10],
  ['two days', 48, 15],
  ['a week', 168, 60],
  ['30 days', 720, 240],
  ['35 days', 840, 360],
])('statsStepMs: the step of %s makes at most 200 points for any start', (_name, hours, minutes) => {
  const stepMs = statsStepMs(hours * 3_600_000)
  expect(stepMs).toBe(minutes * 60_000)
  expect((hours * 3_600_000) / stepMs + 1).toBeLessThanOrEqual(200)
})

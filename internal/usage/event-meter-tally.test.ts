import { expect, test } from 'bun:test'
import { EventTally } from './event-meter.ts'

const hourMs = 3_600_000
const nowMs = 500_000 * hourMs + 1_800_000

function tallyOf(...receivedMs: readonly number[]): EventTally {
  const tally = new EventTally()
  for (const each of receivedMs) tally.add(each, nowMs)
  return tally
}
const callOne = () => 1

test('event tally: recent events count as fresh, and older events count towards their hour', () => {
  const tally = tallyOf(nowMs, nowMs - 5_000, nowMs - 5_001, nowMs - 3 * hourMs)
  const late = new Map([
    [500_000, 1],
    [499_997, 1],
  ])
  expect(tally.next(nowMs, callOne)).toEqual({ call: 1, fresh: 2, late })
})

test('event tally: an unconfirmed call to Redis is repeated with the same counts and the same number', () => {
  const tally = tallyOf(nowMs)
  tally.next(nowMs, callOne)
  tally.add(nowMs, nowMs)
  expect(tally.events).toBe(2)
  expect(tally.next(nowMs, () => 2)).toEqual({ call: 1, fresh: 1, late: new Map() })
  tally.confirm()
  expect(tally.next(nowMs, () => 2)).toEqual({ call: 2, fresh: 1, late: new Map() })
  tally.confirm()
  expect(tally.next(nowMs, () => 3)).toBeUndefined()
  expect(tally.events).toBe(0)
})

test('event tally: events that waited too long count towards the hour of their receipt', () => {
  const tally = tallyOf(nowMs, nowMs)
  tally.next(nowMs, callOne)
  const laterMs = nowMs + 2 * hourMs
  tally.add(laterMs, laterMs)
  expect(tally.next(laterMs, callOne)).toEqual({ call: 1, fresh: 0, late: new Map([[500_000, 2]]) })
  tally.confirm()
  expect(tally.next(laterMs, () => 2)).toMatchObject({ fresh: 1 })
})

test('event tally: keeps two days by hour, and adds older events to the oldest hour', () => {
  const hours = Array.from({ length: 60 }, (_none, ago) => nowMs - (ago + 1) * hourMs)
  const late = tallyOf(...hours).next(nowMs, callOne)?.late ?? new Map<number, number>()
  expect(late.size).toBe(48)
  expect(late.get(Math.min(...late.keys()))).toBe(13)
  expect([...late.values()].reduce((sum, count) => sum + count)).toBe(60)
})

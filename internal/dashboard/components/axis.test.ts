import { describe, expect, test } from 'bun:test'
import { linearTicks, logTicks, type Tick, timeTicks } from './axis.ts'

const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs
const labels = (ticks: readonly Tick[]) => ticks.map(({ label }) => label)

describe('axis: value axes have round values', () => {
  test.each<[number, 'count' | 'ms', string[]]>([
    [1, 'count', ['0', '1']],
    [5, 'count', ['0', '2', '4', '6']],
    [43, 'count', ['0', '20', '40', '60']],
    [80, 'count', ['0', '20', '40', '60', '80']],
    [9_700, 'count', ['0', '5K', '10K']],
    [13_000_000, 'count', ['0', '5M', '10M', '15M']],
    [862, 'ms', ['0', '500 ms', '1 s']],
    [7_500, 'ms', ['0', '2 s', '4 s', '6 s', '8 s']],
    [170_000, 'ms', ['0', '1 min', '2 min', '3 min']],
    [31 * hourMs, 'ms', ['0', '12 h', '1 d', '1 d 12 h']],
  ])('axis: a value axis up to %d in the unit %s has round values', (most, unit, expected) => {
    expect(labels(linearTicks(most, unit))).toEqual(expected)
  })

  test.each<[number, string[]]>([
    [42, ['1 ms', '10 ms', '100 ms']],
    [7_000, ['1 ms', '10 ms', '100 ms', '1 s', '10 s']],
    [45_000, ['1 ms', '10 ms', '100 ms', '1 s', '10 s', '1 min']],
    [500_000, ['1 ms', '100 ms', '10 s', '10 min']],
    [2 * hourMs, ['1 ms', '100 ms', '10 s', '10 min', '10 h']],
  ])('axis: a logarithmic axis up to %d ms has round values', (most, expected) => {
    const ticks = logTicks(most)
    expect(labels(ticks)).toEqual(expected)
    expect(ticks.at(-1)?.value).toBeGreaterThanOrEqual(most)
  })
})

describe('axis: time axes have round times of the reader’s zone', () => {
  const at = Date.parse('2026-11-26T15:30:12Z')
  test.each<[string, number, string, string[]]>([
    ['an hour', hourMs, 'UTC', ['14:45', '15:00', '15:15', '15:30']],
    [
      'an hour in a zone that is 5 h 45 min ahead',
      hourMs,
      'Asia/Kathmandu',
      ['20:30', '20:45', '21:00', '21:15'],
    ],
    ['6 hours', 6 * hourMs, 'UTC', ['10:00', '12:00', '14:00']],
    ['24 hours', dayMs, 'Europe/Berlin', ['18:00', '00:00', '06:00', '12:00']],
    ['7 days', 7 * dayMs, 'UTC', ['21 Nov', '23 Nov', '25 Nov']],
    ['30 days', 30 * dayMs, 'Europe/Berlin', ['2 Nov', '9 Nov', '16 Nov', '23 Nov']],
  ])('axis: a time axis over %s has round times of the reader’s zone', (_span, spanMs, zone, expected) => {
    expect(labels(timeTicks(at - spanMs, at, { zone, nowMs: at }))).toEqual(expected)
  })

  test('axis: ticks stay at midnight across a clock change', () => {
    const to = Date.parse('2026-10-26T12:00:00Z')
    const ticks = timeTicks(to - 3 * dayMs, to, { zone: 'Europe/Berlin', nowMs: to })
    expect(ticks.map(({ value }) => new Date(value).toISOString())).toEqual([
      '2026-10-23T22:00:00.000Z',
      '2026-10-24T22:00:00.000Z',
      '2026-10-25T23:00:00.000Z',
    ])
  })
})

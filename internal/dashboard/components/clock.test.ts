import { expect, test } from 'bun:test'
import { dayStartMs, instantOf, parseZone, type TimeFormat, timeText, wallTimeOf } from './clock.ts'

const at = (iso: string) => Date.parse(iso)
const isoOf = (atMs: number) => new Date(atMs).toISOString().slice(0, 19)

test.each([
  ['UTC', '2026-11-21T09:05:07Z', '2026-11-21T09:05:07'],
  ['America/New_York', '2026-11-26T12:09:00Z', '2026-11-26T07:09:00'],
  ['Asia/Kathmandu', '2026-11-21T20:00:00Z', '2026-11-22T01:45:00'],
  ['Europe/Berlin', '2026-07-01T22:30:00Z', '2026-07-02T00:30:00'],
  ['Pacific/Kiritimati', '2026-12-31T11:00:00Z', '2027-01-01T01:00:00'],
])('clock: in %s the instant %s is the local time %s, and is parsed back', (zone, instant, wall) => {
  expect(wallTimeOf(at(instant), zone)).toBe(wall)
  expect(instantOf(wall, zone)).toBe(at(instant))
})

test.each([
  ['before the clock goes forward', '2026-03-29T01:59:59', '2026-03-29T00:59:59'],
  ['skipped by the clock', '2026-03-29T02:30:00', '2026-03-29T01:30:00'],
  ['after the clock went forward', '2026-03-29T03:00:00', '2026-03-29T01:00:00'],
  ['after the clock went back', '2026-10-25T03:00:00', '2026-10-25T02:00:00'],
])('clock: a local time in Berlin %s, %s, is the instant %s', (_case, wall, instant) => {
  expect(isoOf(instantOf(wall, 'Europe/Berlin'))).toBe(instant)
})

test.each([
  ['Europe/Berlin', 0, '2026-11-20T23:00:00'],
  ['Europe/Berlin', 1, '2026-11-19T23:00:00'],
  ['America/Los_Angeles', 0, '2026-11-20T08:00:00'],
  ['UTC', 21, '2026-10-31T00:00:00'],
])('clock: in time zone %s, at 04:00 UTC, the day %d days ago started at %s', (zone, daysAgo, expected) => {
  expect(isoOf(dayStartMs({ zone, nowMs: at('2026-11-21T04:00:00Z') }, daysAgo))).toBe(expected)
})

test.each<[string, TimeFormat, string, string]>([
  ['2026-11-21T09:05:07Z', 'short', 'UTC', 'today, 09:05:07 UTC'],
  ['2026-11-21T09:05:07Z', 'short', 'Europe/Berlin', 'today, 10:05:07'],
  ['2026-11-20T23:30:00Z', 'short', 'UTC', 'yesterday, 23:30:00 UTC'],
  ['2026-11-20T23:30:00Z', 'short', 'Europe/Berlin', 'today, 00:30:00'],
  ['2026-11-19T12:00:00Z', 'short', 'Europe/Berlin', '19 Nov, 13:00:00'],
  ['2026-11-22T12:00:00Z', 'short', 'Europe/Berlin', '22 Nov, 13:00:00'],
  ['2025-12-31T23:30:00Z', 'short', 'UTC', '31 Dec 2025, 23:30:00 UTC'],
  ['2026-11-21T09:05:07Z', 'full', 'Europe/Berlin', '21 Nov 2026, 10:05:07'],
  ['2026-11-20T23:30:00Z', 'day', 'Europe/Berlin', '21 Nov'],
  ['2026-11-20T23:30:00Z', 'minute', 'Europe/Berlin', '00:30'],
])('clock: %s in format %s is shown in %s as %s', (instant, format, zone, expected) => {
  expect(timeText(at(instant), format, { zone, nowMs: at('2026-11-21T20:00:00Z') })).toBe(expected)
})

test.each(['Europe/Berlin', 'Asia/Calcutta', 'America/Argentina/Buenos_Aires', 'Etc/GMT+5', 'UTC'])(
  'clock: the zone %s is accepted',
  (zone) => expect(parseZone(zone)).toBe(zone),
)

test.each(['', 'Nowhere/Here', '+02:00', '../etc/passwd', '<b>', 'A/'.repeat(50)])(
  'clock: the zone %p is refused',
  (zone) => expect(parseZone(zone)).toBeUndefined(),
)

import { dayStartMs, instantOf, type ReaderClock, timeText, wallTimeOf } from './clock.ts'
import { compactText, durationText } from './text.tsx'

export interface Tick {
  readonly value: number
  readonly label: string
}

/** Maximum number of intervals between the ticks of a linear axis. */
const intervalsMax = 4
const secondMs = 1_000
const minuteMs = 60_000
const hourMs = 60 * minuteMs
const dayMs = 24 * hourMs

/** Rounds an amount up to 1, 2 or 5 times a power of ten; at least to 1. */
function roundStep(amount: number): number {
  const power = 10 ** Math.max(0, Math.floor(Math.log10(amount)))
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= amount) ?? amount
}

const durationStepsMs = [
  1,
  2,
  5,
  10,
  20,
  50,
  100,
  200,
  500,
  ...[1, 2, 5, 10, 20, 30].map((seconds) => seconds * secondMs),
  ...[1, 2, 5, 10, 20, 30].map((minutes) => minutes * minuteMs),
  ...[1, 2, 6, 12].map((hours) => hours * hourMs),
  ...[1, 2, 5, 10, 20].map((days) => days * dayMs),
]

/** Returns ticks at round values from 0 to at least `most`. */
export function linearTicks(most: number, unit: 'count' | 'ms'): readonly Tick[] {
  const least = most / intervalsMax
  const step =
    unit === 'count' ? roundStep(least) : (durationStepsMs.find((each) => each >= least) ?? roundStep(least))
  const format = unit === 'count' ? compactText : shortDuration
  return Array.from({ length: Math.ceil(most / step) + 1 }, (_none, nth) => nth * step).map((value) => ({
    value,
    label: value === 0 ? '0' : format(value),
  }))
}

const logValuesMs = [
  1,
  10,
  100,
  secondMs,
  10 * secondMs,
  minuteMs,
  10 * minuteMs,
  hourMs,
  10 * hourMs,
  4 * dayMs,
  40 * dayMs,
  400 * dayMs,
]
/** Maximum number of labels of a logarithmic axis. An axis with more values has a label at every second value. */
const logTicksMax = 6
const logTopMsMin = 100

/** Returns ticks of a logarithmic axis, from 1 ms to at least `mostMs`. */
export function logTicks(mostMs: number): readonly Tick[] {
  const enough = logValuesMs.findIndex((value) => value >= Math.max(mostMs, logTopMsMin))
  if (enough < 0) return [1, mostMs].map((value) => ({ value, label: shortDuration(value) }))
  const every = enough < logTicksMax ? 1 : 2
  return logValuesMs
    .slice(0, enough + 1 + (enough % every))
    .filter((_value, nth) => nth % every === 0)
    .map((value) => ({ value, label: shortDuration(value) }))
}

const shortDuration = (ms: number) => durationText(ms).replace('.0 ', ' ')

const timeIntervalsMax = 5
const timeStepsMs = [
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * minuteMs),
  ...[1, 2, 3, 6, 12].map((hours) => hours * hourMs),
]
const dayStepsMs = [1, 2, 7, 14, 28].map((days) => days * dayMs)

/** Returns ticks of a time axis at round minutes or hours, days, or Mondays in the reader's zone, depending on its length. */
export function timeTicks(fromMs: number, toMs: number, clock: ReaderClock): readonly Tick[] {
  const stepMs =
    [...timeStepsMs, ...dayStepsMs].find((step) => (toMs - fromMs) / step <= timeIntervalsMax) ?? 56 * dayMs
  const format = stepMs < dayMs ? 'minute' : 'day'
  // Calculates with wall-clock times as if they were UTC, because these advance evenly even when the clocks change.
  const wallMs = (atMs: number) => Date.parse(`${wallTimeOf(atMs, clock.zone)}Z`)
  const startMs = dayStartMs(
    { zone: clock.zone, nowMs: fromMs },
    stepMs >= 7 * dayMs ? daysSinceMonday(fromMs, clock) : 0,
  )
  const values: number[] = []
  for (let atMs = wallMs(startMs); atMs <= wallMs(toMs); atMs += stepMs)
    values.push(instantOf(new Date(atMs).toISOString().slice(0, 19), clock.zone))
  return values
    .filter((value) => value >= fromMs && value <= toMs)
    .map((value) => ({ value, label: timeText(value, format, clock) }))
}

function daysSinceMonday(atMs: number, { zone }: ReaderClock): number {
  return (new Date(`${wallTimeOf(atMs, zone)}Z`).getUTCDay() + 6) % 7
}

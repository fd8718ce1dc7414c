import { createContext } from 'preact'

export interface ReaderClock {
  /** IANA name, such as `Europe/Berlin`. */
  readonly zone: string
  readonly nowMs: number
}

export const utcZone = 'UTC'

/** Zone and time of the reader. Without a provider: UTC, at the epoch. */
export const ReaderClockContext = createContext<ReaderClock>({ zone: utcZone, nowMs: 0 })

const formats = new Map<string, Intl.DateTimeFormat>()
/** Maximum number of zones in memory. The IANA database names about 600. */
const zonesMax = 700
const zonePattern = /^[A-Za-z][A-Za-z0-9_+-]{0,30}(\/[A-Za-z0-9_+-]{1,30}){0,2}$/

function formatOf(zone: string): Intl.DateTimeFormat {
  const known = formats.get(zone)
  if (known !== undefined) return known
  const made = new Intl.DateTimeFormat('en-US', {
    timeZone: zone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  })
  if (formats.size >= zonesMax) formats.clear()
  formats.set(zone, made)
  return made
}

export function parseZone(text: string): string | undefined {
  if (!zonePattern.test(text)) return undefined
  try {
    formatOf(text)
    return text
  } catch {
    return undefined
  }
}

/** Formats a time in a zone, with seconds: `2026-11-21T19:50:07`. */
export function wallTimeOf(atMs: number, zone: string): string {
  if (zone === utcZone) return new Date(atMs).toISOString().slice(0, 19)
  const parts: Partial<Record<Intl.DateTimeFormatPartTypes, string>> = {}
  for (const { type, value } of formatOf(zone).formatToParts(atMs)) parts[type] = value
  const { year = '', month, day, hour, minute, second } = parts
  return `${year.padStart(4, '0')}-${month}-${day}T${hour}:${minute}:${second}`
}

/** Returns the instant of a local time. A repeated time gives one of its two instants; a skipped time, an instant after the change. */
export function instantOf(wallTime: string, zone: string): number {
  const asUtcMs = Date.parse(`${wallTime}Z`)
  const offsetAt = (atMs: number) =>
    Date.parse(`${wallTimeOf(atMs, zone)}Z`) - Math.floor(atMs / 1_000) * 1_000
  // Near a clock change, the first offset can be the one from the other side of the change. The second pass corrects this.
  return asUtcMs - offsetAt(asUtcMs - offsetAt(asUtcMs))
}

export function dayStartMs({ zone, nowMs }: ReaderClock, daysAgo = 0): number {
  const [year = 0, month = 1, day = 1] = wallTimeOf(nowMs, zone).slice(0, 10).split('-').map(Number)
  const date = new Date(Date.UTC(year, month - 1, day - daysAgo)).toISOString().slice(0, 10)
  return instantOf(`${date}T00:00:00`, zone)
}

export type TimeFormat = 'full' | 'short' | 'day' | 'minute'

const months = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec']

/** Formats a time. `short`: today and yesterday by name, other days by date, with the year if it is not the present year. */
export function timeText(atMs: number, format: TimeFormat, clock: ReaderClock): string {
  const wall = wallTimeOf(atMs, clock.zone)
  const today = wallTimeOf(clock.nowMs, clock.zone)
  const day = `${Number(wall.slice(8, 10))} ${months[Number(wall.slice(5, 7)) - 1]}`
  if (format === 'day') return day
  if (format === 'minute') return wall.slice(11, 16)
  const time = `${wall.slice(11)}${clock.zone === utcZone ? ' UTC' : ''}`
  const year = wall.slice(0, 4)
  if (format === 'full') return `${day} ${year}, ${time}`
  if (wall.slice(0, 10) === today.slice(0, 10)) return `today, ${time}`
  if (atMs < clock.nowMs && atMs >= dayStartMs(clock, 1)) return `yesterday, ${time}`
  return year === today.slice(0, 4) ? `${day}, ${time}` : `${day} ${year}, ${time}`
}

export function utcText(atMs: number): string {
  return `${wallTimeOf(atMs, utcZone).replace('T', ' ')} UTC`
}

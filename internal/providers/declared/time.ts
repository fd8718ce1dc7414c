import { readIsoTime, readUnixSeconds } from '../normalize.ts'
import type { TimeUnit } from './schema.ts'

/** Parses the text of a time to milliseconds: 1 to 12 digits of seconds, 1 to 15 of milliseconds, or RFC 3339. */
export function parseTime(text: string, unit: TimeUnit): number | undefined {
  if (unit === 'iso') return readIsoTime(text)
  if (unit === 's') return /^[0-9]{1,12}$/.test(text) ? Number(text) * 1000 : undefined
  return /^[0-9]{1,15}$/.test(text) ? Number(text) : undefined
}

/** Reads a member with a time: a number of seconds or milliseconds, or an RFC 3339 text. */
export function readTime(value: unknown, unit: TimeUnit): number | undefined {
  if (unit === 'iso') return readIsoTime(value)
  return readUnixSeconds(unit === 'ms' && typeof value === 'number' ? value / 1000 : value)
}

/** 9999-12-31T23:59:59.999Z, the last moment that ISO 8601 writes with four digits of year. */
const lastMs = 253_402_300_799_999
const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/

/**
 * Reads a time with its offset from UTC, as RFC 3339 writes it. Gives milliseconds since the epoch; undefined for anything
 * else, and for times before 1970 or after 9999.
 */
export function readIsoTime(value: unknown): number | undefined {
  if (typeof value !== 'string' || !rfc3339.test(value)) return undefined
  return inRange(Date.parse(value))
}

/** Reads a Unix time in seconds, fractions allowed. Gives milliseconds; undefined for anything else, as `readIsoTime`. */
export function readUnixSeconds(value: unknown): number | undefined {
  return typeof value === 'number' ? inRange(Math.round(value * 1000)) : undefined
}

function inRange(ms: number): number | undefined {
  return ms >= 0 && ms <= lastMs ? ms : undefined
}

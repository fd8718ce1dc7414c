import { InvalidArgumentError } from '@commander-js/extra-typings'
import { parseTypeFilter } from '#internal/base/index.ts'
import { isBaseUrl } from './profiles.ts'

const unitsMs = { m: 60_000, h: 3_600_000, d: 86_400_000 } as const
const absolute = /^\d{4}-\d{2}-\d{2}(T\d{2}:\d{2}(:\d{2}(\.\d{1,3})?)?(Z|[+-]\d{2}:\d{2}))?$/

/** Accepts a date, a time with its offset, or an age such as `24h`. Returns milliseconds. @param nowMs base of relative times */
export function parseTime(nowMs: number): (text: string) => number {
  return (text) => {
    const ago = /^(\d{1,6})([mhd])$/.exec(text)
    if (ago) return nowMs - Number(ago[1]) * unitsMs[ago[2] as keyof typeof unitsMs]
    const timeMs = absolute.test(text) ? Date.parse(text) : Number.NaN
    if (!Number.isNaN(timeMs)) return timeMs
    throw new InvalidArgumentError(
      'It must be a time such as 2026-11-01 or 2026-11-01T08:30:00Z, or how long ago, such as 24h or 7d.',
    )
  }
}

/** Checks a time, which must have an offset, and returns the text as given. */
export function parseMoment(text: string): string {
  if (text.includes('T') && absolute.test(text) && !Number.isNaN(Date.parse(text))) return text
  throw new InvalidArgumentError('It must be a time such as 2027-01-31T00:00:00Z.')
}

export function fromOption(text: string, nowMs: number) {
  const description = `${text}: 2026-11-01, 2026-11-01T08:30:00Z, or 24h, 7d ago`
  return ['--from <time>', description, parseTime(nowMs)] as const
}

export function isoTime(ms: number | undefined): string | undefined {
  return ms === undefined ? undefined : new Date(ms).toISOString()
}

export function parseWhole(min: number, max: number): (text: string) => number {
  return (text) => {
    const number = /^\d{1,16}$/.test(text) ? Number(text) : Number.NaN
    if (number >= min && number <= max) return number
    throw new InvalidArgumentError(`It must be a whole number from ${min} to ${max}.`)
  }
}

export function parseId<Id>(prefix: string, parse: (text: string) => Id | undefined): (text: string) => Id {
  return (text) => {
    const id = parse(text)
    if (id !== undefined) return id
    throw new InvalidArgumentError(`It must be ${prefix}_ and 26 characters.`)
  }
}

export function parseProvider(text: string): string {
  if (/^[a-z][a-z0-9_-]{1,39}$/.test(text)) return text
  throw new InvalidArgumentError('It must be the name of a provider, such as card, stripe or slack.')
}

export function parseType(text: string): string {
  const type = parseTypeFilter(text)
  if (type !== undefined) return type
  throw new InvalidArgumentError(
    'It must be a complete type such as payment.failed, or a family of types such as payment.*.',
  )
}

/** Suggests a family of types for a single word, because it is more often meant as a family than as a type. */
export function typeHint(type: string | undefined): string {
  return type === undefined || type.includes('.')
    ? ''
    : `\nNo event has the complete type ${type}; for all types that begin with it: --type '${type}.*'`
}

/** Parses a URL. A password is refused, because it would be printed. */
export function parseUrl(text: string): string {
  const url = /^https?:/i.test(text) ? URL.parse(text) : null
  if (url && url.username === '' && url.password === '') return text
  throw new InvalidArgumentError('It must be an http or https URL without user and password.')
}

export function parseBaseUrl(text: string): string {
  if (isBaseUrl(text)) return text.replace(/\/+$/, '')
  throw new InvalidArgumentError('It must be an http or https URL without user, query and fragment.')
}

export function parseProfile(text: string): string {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/.test(text)) return text
  throw new InvalidArgumentError('It must be 1 to 64 letters, digits, dots, underscores and hyphens.')
}

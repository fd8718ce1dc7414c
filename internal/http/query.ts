import { type ApiError, apiError } from '#internal/base/index.ts'
import { quoteName } from './validate.ts'

/** The parameters of a query string. */
export type Query = { readonly kind: 'query'; readonly values: Readonly<Record<string, string>> } | ApiError

const lengthMax = 8192

/**
 * Takes a request's query string apart, strictly: a parameter that stands twice, or that is not UTF-8 in percent-encoding,
 * is 400, where URLSearchParams would pick one or put U+FFFD in its place.
 */
export function parseQuery(url: string): Query {
  const mark = url.indexOf('?')
  const values: Record<string, string> = Object.create(null) as Record<string, string>
  if (mark < 0) return { kind: 'query', values }
  const text = url.slice(mark + 1)
  if (text.length > lengthMax)
    return apiError('invalid_request', `The query must not be longer than ${lengthMax} characters`)
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decode(equals < 0 ? pair : pair.slice(0, equals))
    const value = decode(equals < 0 ? '' : pair.slice(equals + 1))
    if (name === undefined || value === undefined) {
      return apiError('invalid_request', 'The query must be UTF-8 in percent-encoding')
    }
    if (name in values) return apiError('invalid_request', 'A query parameter stands twice')
    values[name] = value
  }
  return { kind: 'query', values }
}

const namesToldMax = 5

/** What is wrong with a call whose query string nobody would read: 400 with its parameters' names, or nothing. */
export function refuseQuery(url: string): ApiError | undefined {
  const query = parseQuery(url)
  if (query.kind === 'error') return query
  const names = Object.keys(query.values)
  if (names.length === 0) return undefined
  const told = names.slice(0, namesToldMax).map(quoteName).join(', ')
  const rest = names.length > namesToldMax ? ' and more' : ''
  return apiError('invalid_request', `This call takes no query parameters: send ${told}${rest} in the body`)
}

function decode(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

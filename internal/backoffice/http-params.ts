import {
  type ApiError,
  apiError,
  type EventId,
  idPattern,
  isTenantId,
  parseEventId,
  type TenantId,
} from '#internal/base/index.ts'
import { parseQuery } from '#internal/http/index.ts'
import { dnsLabel } from '#internal/tenants/index.ts'

/** A parameter of the query: how it is read, and what the contract says of it. */
export interface Param<Value> {
  /** undefined for what is none. */
  parse(text: string): Value | undefined
  /** What it has to be, in words. */
  readonly expected: string
  readonly description: string
  /** Of its text. */
  readonly schema: Readonly<Record<string, unknown>>
  readonly isRequired?: boolean
}

/** The parameters of a call by name. */
export type Params = Readonly<Record<string, Param<unknown>>>

/** What was read: parameters that were not given are absent. */
export type ParamValues<P extends Params> = {
  readonly [Name in keyof P]?: P[Name] extends Param<infer Value> ? Value : never
}

/** Reads a call's query; 400 for what is not known, not well-formed, or missing. */
export function readParams<P extends Params>(
  url: string,
  params: P,
): { readonly kind: 'read'; readonly values: ParamValues<P> } | ApiError {
  const query = parseQuery(url)
  if (query.kind === 'error') return query
  const read: Record<string, unknown> = {}
  for (const name of Object.keys(query.values)) {
    const param = Object.hasOwn(params, name) ? params[name] : undefined
    if (param === undefined) {
      const known = Object.keys(params).join(', ')
      return apiError(
        'invalid_request',
        known === ''
          ? 'This call takes no query parameters'
          : `This call takes the query parameters ${known}`,
      )
    }
    const value = param.parse(query.values[name] ?? '')
    if (value === undefined) return apiError('invalid_request', `"${name}" must be ${param.expected}`)
    read[name] = value
  }
  const missing = Object.keys(params).find((name) => params[name]?.isRequired && !(name in read))
  if (missing !== undefined) return apiError('invalid_request', `"${missing}" is required`)
  return { kind: 'read', values: read as ParamValues<P> }
}

/** A text of a form. */
export function textParam(
  description: string,
  { charsMax, pattern = `^[^\\p{Cc}\\p{Cs}]{1,${charsMax}}$` }: { charsMax: number; pattern?: string },
): Param<string> {
  const form = new RegExp(pattern, 'u')
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    expected: `1 to ${charsMax} characters, none of them a control character`,
    description,
    schema: { type: 'string', minLength: 1, maxLength: charsMax },
  }
}

/** One word of a closed set. */
export function wordParam<const Word extends string>(
  description: string,
  words: readonly Word[],
): Param<Word> {
  return {
    parse: (text) => words.find((word) => word === text),
    expected: `one of ${words.join(', ')}`,
    description,
    schema: { type: 'string', enum: [...words] },
  }
}

const rfc3339 = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)$/

/** A time of RFC 3339, in milliseconds since the epoch; undefined for anything else. Pure. */
export function readTime(text: string): number | undefined {
  const timeMs = rfc3339.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(timeMs) || timeMs < 0 ? undefined : timeMs
}

/** A moment. */
export function timeParam(description: string): Param<number> {
  return {
    parse: readTime,
    expected: 'a time such as 2026-11-01T08:30:00Z',
    description,
    schema: { type: 'string', format: 'date-time' },
  }
}

/** A tenant's id from outside; undefined for what is none. Pure. */
export function readTenantId(text: string): TenantId | undefined {
  return isTenantId(text) ? text : undefined
}

const limit: Param<number> = {
  parse: (text) => (/^([1-9]\d?|100)$/.test(text) ? Number(text) : undefined),
  expected: 'a whole number from 1 to 100',
  description: 'How many there are on a page: 1 to 100, default 50.',
  schema: { type: 'string', pattern: '^([1-9][0-9]?|100)$' },
}

const namespace = new RegExp(dnsLabel)

/** Which namespaces a list is of. */
export const namespacesParam: Param<readonly string[]> = {
  parse(text) {
    const named = text.split(',')
    return named.every((each) => namespace.test(each)) ? named : undefined
  },
  expected: 'names of namespaces with commas between',
  description:
    'Names of at most 50 namespaces, with commas between. Whoever may not see Tenants of the whole cluster has to name them, or a tenant.',
  schema: { type: 'string', minLength: 1 },
}

/** One tenant. */
export const tenantParam: Param<TenantId> = {
  parse: readTenantId,
  expected: 'a tenant’s id: ten_ and 26 characters',
  description: 'The id of one tenant.',
  schema: { type: 'string', pattern: idPattern('ten') },
}

/** One event. */
export const eventParam: Param<EventId> = {
  parse: parseEventId,
  expected: 'an event’s id: evt_ and 26 characters',
  description: 'The id of one event.',
  schema: { type: 'string', pattern: idPattern('evt') },
}

/** The provider that called. */
export const providerParam: Param<string> = textParam('A provider’s name, neutral or its vendor’s.', {
  charsMax: 64,
})

/** Of every list: which page of it. */
export const pageParams = {
  after: textParam('`next` of the page before.', { charsMax: 512 }),
  limit,
} as const

/** Of lists of several tenants: whose. */
export const whoseParams = { tenant: tenantParam, namespaces: namespacesParam } as const

import { Type as t } from '@sinclair/typebox'
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
import { notFound, type Outcome } from './outcome.ts'

/** A query parameter with its parser and its documentation. */
export interface Param<Value> {
  /** Returns undefined for an invalid value. */
  parse(text: string): Value | undefined
  /** Completes the error text `"name" must be …`. */
  readonly expected: string
  readonly description: string
  readonly schema: Readonly<Record<string, unknown>>
  readonly isRequired?: boolean
}

/** Query parameters by name. */
export type Params = Readonly<Record<string, Param<unknown>>>

/** Parsed values of query parameters. A parameter that was not sent is absent. */
export type ParamValues<P extends Params> = {
  readonly [Name in keyof P]?: P[Name] extends Param<infer Value> ? Value : never
}

/** Parses the query of a call. Returns a 400 error for an unknown, malformed or missing parameter. */
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

/** Defines a parameter whose text matches a pattern. */
export function textParam(
  description: string,
  { charsMax, pattern = `^[^\\p{Cc}\\p{Cs}]{1,${charsMax}}$` }: { charsMax: number; pattern?: string },
): Param<string> {
  const form = new RegExp(pattern, 'u')
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    expected: `1 to ${charsMax} characters without control characters`,
    description,
    schema: { type: 'string', minLength: 1, maxLength: charsMax },
  }
}

/** Defines a parameter that accepts one of a closed set of words. */
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

/** Parses an RFC 3339 time into milliseconds since the epoch. Returns undefined for any other text. Pure. */
export function readTime(text: string): number | undefined {
  const timeMs = rfc3339.test(text) ? Date.parse(text) : Number.NaN
  return Number.isNaN(timeMs) || timeMs < 0 ? undefined : timeMs
}

/** Defines a parameter that is an RFC 3339 time. */
export function timeParam(description: string): Param<number> {
  return {
    parse: readTime,
    expected: 'a time such as 2026-11-01T08:30:00Z',
    description,
    schema: { type: 'string', format: 'date-time' },
  }
}

/** Parses a tenant id. Returns undefined for any other text. Pure. */
export function readTenantId(text: string): TenantId | undefined {
  return isTenantId(text) ? text : undefined
}

/** Runs a use case with a parsed path parameter. Returns 404 if the parameter is malformed. */
export async function withNamed<Name, Value>(
  text: string | undefined,
  parse: (text: string) => Name | undefined,
  use: (name: Name) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  const name = parse(text ?? '')
  return name === undefined ? notFound : use(name)
}

const limit: Param<number> = {
  parse: (text) => (/^([1-9]\d?|100)$/.test(text) ? Number(text) : undefined),
  expected: 'a whole number from 1 to 100',
  description: 'Items per page: 1 to 100, default 50.',
  schema: { type: 'string', pattern: '^([1-9][0-9]?|100)$' },
}

const namespace = new RegExp(dnsLabel)

/** Query parameter: the namespaces that a list covers. */
export const namespacesParam: Param<readonly string[]> = {
  parse(text) {
    const named = text.split(',')
    return named.every((each) => namespace.test(each)) ? named : undefined
  },
  expected: 'names of namespaces, separated by commas',
  description:
    'Names of at most 50 namespaces, separated by commas. Required for callers that may not see the Tenants of the whole cluster, unless a tenant is named.',
  schema: { type: 'string', minLength: 1 },
}

/** Query parameter: the tenant to filter by. */
export const tenantParam: Param<TenantId> = {
  parse: readTenantId,
  expected: 'a tenant’s id: ten_ and 26 characters',
  description: 'Id of a tenant.',
  schema: { type: 'string', pattern: idPattern('ten') },
}

/** Query parameter: the event to filter by. */
export const eventParam: Param<EventId> = {
  parse: parseEventId,
  expected: 'an event’s id: evt_ and 26 characters',
  description: 'Id of an event.',
  schema: { type: 'string', pattern: idPattern('evt') },
}

/** Query parameter: the provider to filter by. */
export const providerParam: Param<string> = textParam('Name of a provider, neutral or the vendor’s.', {
  charsMax: 64,
})

/** Paging parameters that every list accepts. */
export const pageParams = {
  after: textParam('`next` of the previous page.', { charsMax: 512 }),
  limit,
} as const

/** Parameters of lists that can cover several tenants. */
export const tenantParams = { tenant: tenantParam, namespaces: namespacesParam } as const

/** Documentation of path parameters by name. */
export const pathParams: Readonly<
  Record<string, { readonly description: string; readonly example: string }>
> = {
  tenantId: { description: 'Id of the tenant.', example: 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs' },
  eventId: { description: 'Id of the event.', example: 'evt_06gw979vs1d9q6mddfvvx375s4' },
  replayId: { description: 'Id of the replay.', example: 'rpl_06gw979vs1d9q6mddfvvx375s4' },
  simulationId: { description: 'Id of the simulation.', example: 'sim_06gzx3byyxdccqxb8v47jbp37g' },
  emissionId: {
    description: 'The other service’s own id: 1 to 128 printable characters.',
    example: 'batch-2026-11-21-7',
  },
  limit: { description: 'Name of a limit.', example: 'eventsPerMonth' },
  name: { description: 'Name of a setting.', example: 'forwarding.paused' },
}

/** Returns the body schema of a text that is one of a closed set of words. */
export function oneOf<const Words extends readonly string[]>(words: Words, description: string) {
  const pattern = `^(${words.join('|')})$`
  return t.Unsafe<Words[number]>(t.String({ enum: [...words], pattern, description }))
}

/** Returns the body schema of an RFC 3339 time. `readTime` parses the text and also refuses dates that do not exist. */
export function timestamp(description: string) {
  return t.String({
    pattern:
      '^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}([.][0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})$',
    maxLength: 40,
    description: `${description} Such as 2026-11-01T08:30:00Z.`,
  })
}

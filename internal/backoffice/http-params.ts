import { type SchemaOptions, Type as t } from '@sinclair/typebox'
import { namespacesMax } from '#internal/access/index.ts'
import {
  type ApiError,
  apiError,
  type EventId,
  idPattern,
  isTenantId,
  parseEventId,
  parseTimestamp,
  type TenantId,
  timestampMsMax,
  timestampPattern,
} from '#internal/base/index.ts'
import { type JsonSchema, parseQuery } from '#internal/http/index.ts'
import { settingNameSchema } from '#internal/settings/index.ts'
import {
  acceptedProviderNames,
  limitNameCharsMax,
  limitNamePattern,
  neutralProviderName,
  type ProviderName,
  providerAliasText,
} from '#internal/tenants/index.ts'
import { notFound, type Outcome } from './outcome.ts'

/** A query parameter with its parser and its documentation. */
export interface Param<Value> {
  /** Returns undefined for an invalid value. */
  parse(text: string): Value | undefined
  /** Completes the error text `"name" must be …`. */
  readonly expected: string
  readonly description: string
  readonly schema: JsonSchema
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

/** Returns the schema of a text without control characters and U+FFFD, which decoders put in place of invalid bytes. */
export const plainText = (charsMax: number, options: SchemaOptions = {}) =>
  t.RegExp(new RegExp(`^[^\\p{Cc}\\p{Cs}\\uFFFD]{1,${charsMax}}$`, 'u'), options)

/** Defines a parameter with a text of 1 to `charsMax` characters. */
export function textParam(description: string, { charsMax }: { readonly charsMax: number }): Param<string> {
  const schema = plainText(charsMax)
  const form = new RegExp(schema.source, schema.flags)
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    expected: `1 to ${charsMax} characters without control characters or U+FFFD`,
    description,
    schema,
  }
}

/** Defines a parameter whose text matches a pattern that is the same in every dialect of regular expressions. */
export function patternParam(description: string, pattern: string, expected: string): Param<string> {
  const form = new RegExp(pattern)
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    ...{ expected, description, schema: { type: 'string', pattern } },
  }
}

/** Defines a parameter that is a whole number, without sign and leading zeros. */
export function integerParam(
  description: string,
  {
    minimum,
    maximum,
    ...more
  }: { readonly minimum: number; readonly maximum: number; readonly default?: number },
): Param<number> {
  return {
    parse(text) {
      const value = /^(0|[1-9]\d{0,15})$/.test(text) ? Number(text) : Number.NaN
      return value >= minimum && value <= maximum ? value : undefined
    },
    expected: `a whole number from ${minimum} to ${maximum}`,
    description,
    schema: { type: 'integer', minimum, maximum, ...more },
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

/** Times from 1970 to 9999: nothing is older, and Postgres and JavaScript write later years differently. */
const timePattern = timestampPattern.replace('[0-9]{4}', '(19[7-9][0-9]|[2-9][0-9]{3})')

/** Parses an RFC 3339 time from 1970 to 9999 into milliseconds since the epoch. Returns undefined for any other text. Pure. */
export function readTime(text: string): number | undefined {
  const timeMs = parseTimestamp(text)
  return timeMs !== undefined && timeMs >= 0 && timeMs <= timestampMsMax ? timeMs : undefined
}

/** Defines a parameter that is an RFC 3339 time. */
export function timeParam(description: string): Param<number> {
  return {
    parse: readTime,
    expected: 'a time such as 2026-11-01T08:30:00Z',
    description,
    schema: { type: 'string', format: 'date-time', pattern: timePattern },
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

// Without the length of a name, because engines bound repetitions within repetitions.
const namespacesForm = new RegExp(`^[a-z0-9][-a-z0-9]*(,[a-z0-9][-a-z0-9]*){0,${namespacesMax - 1}}$`)
const namespacesCharsMax = namespacesMax * 64 - 1

/** Query parameter: the namespaces that a list covers. */
export const namespacesParam: Param<readonly string[]> = {
  parse: (text) =>
    text.length <= namespacesCharsMax && namespacesForm.test(text) ? text.split(',') : undefined,
  expected: `names of at most ${namespacesMax} namespaces, separated by commas`,
  description:
    'Names of at most 50 namespaces, separated by commas. Required for callers that may not see the Tenants of the whole cluster, unless a tenant is named.',
  schema: { type: 'string', maxLength: namespacesCharsMax, pattern: namespacesForm.source },
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

/** Query parameter: the provider to filter by. Parsed as the neutral name. */
export const providerParam: Param<ProviderName> = {
  ...wordParam(providerText('A provider'), acceptedProviderNames),
  parse: neutralProviderName,
}

/** Body schema of a provider. `neutralProviderName` converts the value. */
export const providerField = (description: string) => oneOf(acceptedProviderNames, providerText(description))

function providerText(description: string): string {
  return `${description}. Vendors’ names are aliases: ${providerAliasText}.`
}

/** Paging parameters that every list accepts. */
export const pageParams = {
  after: textParam('`next` of the previous page.', { charsMax: 512 }),
  limit: integerParam('Items per page.', { minimum: 1, maximum: 100, default: 50 }),
} as const

/** Parameters of lists that can cover several tenants. */
export const tenantParams = { tenantId: tenantParam, namespaces: namespacesParam } as const

/** Documentation of path parameters by name, except those that a route documents itself. */
export const pathParams: Readonly<Record<string, PathParam>> = {
  tenantId: idParam('ten', 'Id of the tenant.', '4f7w1r0hq5m9cn2b8kxv6t3dzs'),
  eventId: idParam('evt', 'Id of the event.', '06gw979vs1d9q6mddfvvx375s4'),
  replayId: idParam('rpl', 'Id of the replay.', '06gw979vs1d9q6mddfvvx375s4'),
  simulationId: idParam('sim', 'Id of the simulation.', '06gzx3byyxdccqxb8v47jbp37g'),
  emissionId: {
    description: 'The other service’s own id.',
    schema: plainText(128),
    example: 'batch-2026-11-21-7',
  },
  limit: {
    description:
      'Name of a limit: locksPerMinute, locksPerMonth, eventsPerMinute, eventsPerMonth, recordBytes, or an emitted kind with `PerMonth`, such as exports.rowsPerMonth.',
    schema: { type: 'string', maxLength: limitNameCharsMax, pattern: limitNamePattern },
    example: 'eventsPerMonth',
  },
}

/** Documentation of a path parameter. A value outside the schema returns 404. */
export interface PathParam {
  readonly description: string
  readonly schema: JsonSchema
  readonly example: string
}

function idParam(prefix: string, description: string, id: string): PathParam {
  return { description, schema: { type: 'string', pattern: idPattern(prefix) }, example: `${prefix}_${id}` }
}

/** Documents the name of a setting of the installation, or of a tenant. */
export function settingParam(ofTenant: boolean): PathParam {
  const schema = settingNameSchema(ofTenant)
  return { description: 'Name of a setting.', schema, example: 'forwarding.paused' }
}

/** Returns the body schema of a text that is one of a closed set of words. */
export function oneOf<const Words extends readonly string[]>(words: Words, description: string) {
  const pattern = `^(${words.join('|')})$`
  return t.Unsafe<Words[number]>(t.String({ enum: [...words], pattern, description }))
}

/** Returns the body schema of an RFC 3339 time. `readTime` parses the text and also refuses dates that do not exist. */
export function timestamp(description: string) {
  const schema = {
    ...{ pattern: timePattern, maxLength: 40 },
    description: `${description} Such as 2026-11-01T08:30:00Z.`,
  }
  // The parser of requests does not know formats.
  return t.String({ ...schema, documented: { ...schema, type: 'string', format: 'date-time' } })
}

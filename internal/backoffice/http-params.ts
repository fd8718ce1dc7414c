import { type SchemaOptions, Type as t } from '@sinclair/typebox'
import { namespacesMax } from '#internal/access/index.ts'
import {
  type EventId,
  idPattern,
  isTenantId,
  pageItemsDefault,
  pageItemsMax,
  parseTimestamp,
  type TenantId,
  timestampMsMax,
  timestampPattern,
} from '#internal/base/index.ts'
import {
  expectation,
  integerParam,
  type JsonSchema,
  mayGrow,
  type Param,
  plainText,
  textParam,
} from '#internal/http/index.ts'
import { providerNameParam } from '#internal/providers/index.ts'
import { settingNameSchema } from '#internal/settings/index.ts'
import { subscriptionNamePattern } from '#internal/subscriptions/index.ts'
import {
  acceptedProviderNames,
  limitNameCharsMax,
  limitNamePattern,
  limitNameText,
  providerAliasText,
  providerNamePattern,
} from '#internal/tenants/index.ts'
import { usageIdCharsMax } from '#internal/usage/index.ts'
import { invalid, notFound, type Outcome, ok } from './outcome.ts'

const idOwners = { ten: 'a tenant', evt: 'an event', rpl: 'a replay', sim: 'a simulation' } as const

export interface Ids extends Record<keyof typeof idOwners, string> {
  readonly ten: TenantId
  readonly evt: EventId
}

export function idSchema<Prefix extends keyof Ids>(prefix: Prefix, options: SchemaOptions = {}) {
  const expected = `the id of ${idOwners[prefix]}: ${prefix}_ and 26 characters`
  return t.Unsafe<Ids[Prefix]>(t.String({ pattern: idPattern(prefix), expected, ...options }))
}

/** Creates a text parameter. `pattern` must have the same meaning in every dialect of regular expressions. */
export function patternParam(description: string, pattern: string, expected: string): Param<string> {
  const form = new RegExp(pattern)
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    description,
    schema: { type: 'string', pattern, expected },
  }
}

/** Covers the years 1970 to 9999: no event is older, and Postgres and JavaScript format later years differently. */
const timePattern = timestampPattern.replace('[0-9]{4}', '(19[7-9][0-9]|[2-9][0-9]{3})')

const timeExpected = 'an RFC 3339 time such as 2026-11-01T08:30:00Z'

/** Parses an RFC 3339 time from 1970 to 9999 into milliseconds since the epoch. */
function readTime(text: string): number | undefined {
  const timeMs = parseTimestamp(text)
  return timeMs !== undefined && timeMs >= 0 && timeMs <= timestampMsMax ? timeMs : undefined
}

const timeForm = new RegExp(timePattern)

/** Returns the problem of a text that is not a time, as the end of a sentence that begins with the name of the field. */
function timeProblem(text: string): string {
  return timeForm.test(text) && parseTimestamp(text) === undefined
    ? 'names a day that does not exist'
    : `must be ${timeExpected}`
}

export function timeParam(description: string): Param<number> {
  return {
    parse: readTime,
    problemOf: (text) =>
      // A `+` that is not encoded in a URL arrives as a space.
      timeForm.test(text.replace(' ', '+')) && text.includes(' ')
        ? `must be ${timeExpected}: send the + of an offset as %2B`
        : timeProblem(text),
    description,
    schema: { type: 'string', format: 'date-time', pattern: timePattern, expected: timeExpected },
  }
}

type TimesMs<Times> = { readonly [Name in keyof Times]: number | Extract<Times[Name], undefined> }

/** Parses RFC 3339 times into milliseconds since the epoch. Refuses any other text, and dates that do not exist. */
export function readTimes<Times extends Readonly<Record<string, string | undefined>>>(
  times: Times,
): Outcome<TimesMs<Times>> {
  const read: Record<string, number | undefined> = {}
  for (const [name, text] of Object.entries(times)) {
    read[name] = text === undefined ? undefined : readTime(text)
    if (text !== undefined && read[name] === undefined) return invalid(timeProblem(text), name)
  }
  return ok(read as TimesMs<Times>)
}

/** Parses a tenant id; returns undefined for any other text. */
export function readTenantId(text: string): TenantId | undefined {
  return isTenantId(text) ? text : undefined
}

/** Value of a path parameter as received, and its parser. `parse` returns undefined for a malformed value. */
interface PathValue<Value> {
  readonly name: keyof typeof pathParams
  readonly params: Readonly<Record<string, string>>
  readonly parse: (text: string) => Value | undefined
}

/** Calls `use` with the parsed path parameter. Returns 404 if the parameter is malformed: no object has such a name. */
export async function withNamed<Name, Value>(
  { name, params, parse }: PathValue<Name>,
  use: (value: Name) => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  const value = parse(params[name] ?? '')
  if (value !== undefined) return use(value)
  return { ...notFound, problem: malformedText(name, pathParams[name]) }
}

export function malformedText(name: string, { schema }: PathParam): string {
  return `"${name}" must be ${expectation(schema)}`
}

// Does not limit the length of each name, because regex engines limit nested bounded repetitions.
const namespacesForm = new RegExp(`^[a-z0-9][-a-z0-9]*(,[a-z0-9][-a-z0-9]*){0,${namespacesMax - 1}}$`)
const namespacesCharsMax = namespacesMax * 64 - 1

export const namespacesParam: Param<readonly string[]> = {
  parse: (text) =>
    text.length <= namespacesCharsMax && namespacesForm.test(text) ? text.split(',') : undefined,
  description:
    'Names of at most 50 namespaces, separated by commas. Required for callers that may not see the Tenants of the whole cluster, unless a tenant is named.',
  schema: {
    type: 'string',
    maxLength: namespacesCharsMax,
    pattern: namespacesForm.source,
    expected: `names of at most ${namespacesMax} namespaces, separated by commas`,
  },
}

export const tenantParam: Param<TenantId> = {
  parse: readTenantId,
  description: 'Id of a tenant.',
  schema: idSchema('ten'),
}

export const providerParam = providerNameParam(providerText('A provider'))

/** Schema of a field for a built-in or declared provider. `parseProviderName` converts its value. */
export const providerField = (description: string) =>
  t.String({
    pattern: providerNamePattern,
    maxLength: 40,
    expected: 'the name of a provider',
    documented: {
      type: 'string',
      enum: acceptedProviderNames,
      ...mayGrow,
      description: providerText(description),
    },
  })

function providerText(description: string): string {
  return `${description}. Vendors’ names are aliases: ${providerAliasText}.`
}

export const pageParams = {
  after: textParam('`next` of the previous page.', { charsMax: 512 }),
  limit: integerParam('Items per page.', { minimum: 1, maximum: pageItemsMax, default: pageItemsDefault }),
} as const

export const listText =
  'Without `tenantId` and `namespaces` it covers all tenants, for which the right must hold in the whole cluster; an API key sees its own tenant.'

export const tenantParams = { tenantId: tenantParam, namespaces: namespacesParam } as const

/** Documentation of all path parameters, except those that a route documents itself. */
export const pathParams = {
  tenantId: idParam('ten', 'Id of the tenant.', '4f7w1r0hq5m9cn2b8kxv6t3dzs'),
  eventId: idParam('evt', 'Id of the event.', '06gw979vs1d9q6mddfvvx375s4'),
  subscriptionName: {
    description: 'Name of the subscription.',
    schema: {
      type: 'string',
      maxLength: 63,
      pattern: subscriptionNamePattern,
      expected: '1 to 63 lowercase letters, digits and hyphens, without a hyphen at its ends',
    },
    example: 'shop',
  },
  replayId: idParam('rpl', 'Id of the replay.', '06gw979vs1d9q6mddfvvx375s4'),
  simulationId: idParam('sim', 'Id of the simulation.', '06gzx3byyxdccqxb8v47jbp37g'),
  emissionId: {
    description: 'The other service’s own id.',
    schema: plainText(usageIdCharsMax),
    example: 'batch-2026-11-21-7',
  },
  limit: {
    description: `Name of a limit: ${limitNameText}.`,
    schema: {
      type: 'string',
      maxLength: limitNameCharsMax,
      pattern: limitNamePattern,
      expected: `the name of a limit: ${limitNameText}`,
    },
    example: 'eventsPerMonth',
  },
} as const satisfies Readonly<Record<string, PathParam>>

/** Documentation of a path parameter. A value outside its schema returns 404. */
export interface PathParam {
  readonly description: string
  readonly schema: JsonSchema
  readonly example: string
}

function idParam(prefix: keyof typeof idOwners, description: string, id: string): PathParam {
  return { description, schema: idSchema(prefix), example: `${prefix}_${id}` }
}

export function settingParam(ofTenant: boolean): PathParam {
  const schema = { ...settingNameSchema(ofTenant), expected: 'the name of a setting' }
  const description =
    'Name of a setting, as the list has them. The pause of a provider, `providers.<name>.paused`, can name any provider, also by an alias.'
  return { description, schema, example: 'forwarding.paused' }
}

/** Returns the schema of an RFC 3339 time in a body. `readTimes` parses the text and also refuses dates that do not exist. */
export function timestamp(description: string) {
  const schema = {
    pattern: timePattern,
    maxLength: 40,
    expected: timeExpected,
    description: `${description} Such as 2026-11-01T08:30:00Z.`,
  }
  // The parser of requests does not know `format`, so only the documentation contains it.
  return t.String({ ...schema, documented: { ...schema, type: 'string', format: 'date-time' } })
}

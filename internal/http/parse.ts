import type { Static, TSchema } from '@sinclair/typebox'
import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import {
  type ApiError,
  apiError,
  findJsonError,
  findMembers,
  hasRepeatedMember,
  isJsonObject,
  isNestedTooDeep,
  jsonDepthMax,
} from '#internal/base/index.ts'
import type { JsonSchema } from './operation.ts'

/** Query parameters by name, or the error to return. */
export type Query = { readonly kind: 'query'; readonly values: Readonly<Record<string, string>> } | ApiError

const queryCharsMax = 8192

/**
 * Parses a query string strictly: 400 for a repeated parameter, and for percent-encoding that is not UTF-8. URLSearchParams would choose
 * one of the repeated values, or replace invalid bytes with U+FFFD.
 */
export function parseQuery(url: string): Query {
  const mark = url.indexOf('?')
  const values: Record<string, string> = Object.create(null) as Record<string, string>
  if (mark < 0) return { kind: 'query', values }
  const text = url.slice(mark + 1)
  if (text.length > queryCharsMax)
    return apiError('invalid_request', `The query must not be longer than ${queryCharsMax} characters`)
  for (const pair of text.split('&')) {
    if (pair === '') continue
    const equals = pair.indexOf('=')
    const name = decodeComponent(equals < 0 ? pair : pair.slice(0, equals))
    const value = decodeComponent(equals < 0 ? '' : pair.slice(equals + 1))
    if (name === undefined || value === undefined) {
      return apiError('invalid_request', 'The query must be percent-encoded UTF-8')
    }
    if (name in values)
      return apiError('invalid_request', `${quoteName(name)} is repeated in the query: send it once`)
    values[name] = value
  }
  return { kind: 'query', values }
}

const namesListedMax = 5

export function refuseQuery(url: string): ApiError | undefined {
  const query = parseQuery(url)
  if (query.kind === 'error') return query
  const names = Object.keys(query.values)
  if (names.length === 0) return undefined
  const listed = names.slice(0, namesListedMax).map(quoteName).join(', ')
  const rest = names.length > namesListedMax ? ' and more' : ''
  return apiError('invalid_request', `This call takes no query parameters: send ${listed}${rest} in the body`)
}

function decodeComponent(text: string): string | undefined {
  try {
    return decodeURIComponent(text.replaceAll('+', ' '))
  } catch {
    return undefined
  }
}

const byteOrderMark = '\ufeff'
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/**
 * Parses a body as a JSON object in UTF-8 (RFC 8259), at most `jsonDepthMax` levels deep. Refuses repeated fields, because JSON parsers
 * disagree about which value counts. Returns 400 for any other body.
 */
export function parseJsonObject(
  body: Uint8Array,
): { readonly kind: 'object'; readonly text: string; readonly value: object } | ApiError {
  if (body.byteLength === 0)
    return apiError('invalid_request', 'The body must be a JSON object, but it is missing')
  const text = decodeUtf8(body)
  if (text === undefined || text.startsWith(byteOrderMark))
    return apiError('invalid_request', 'The body must be UTF-8 without byte order mark')
  if (isNestedTooDeep(text))
    return apiError('invalid_request', `The body must not be nested deeper than ${jsonDepthMax} levels`)
  let value: unknown
  try {
    value = JSON.parse(text)
  } catch {
    return apiError('invalid_request', `The body must be JSON${jsonErrorText(text)}`)
  }
  if (!isJsonObject(value)) return apiError('invalid_request', 'The body must be a JSON object')
  if (hasRepeatedMember(text, value)) return repeatedField(text, 'the body')
  return { kind: 'object', text, value }
}

function jsonErrorText(text: string): string {
  const place = findJsonError(text)
  if (place === undefined) return ''
  const { line, column, isEnd } = place
  return `: ${isEnd ? 'it ends' : 'unexpected character'} at line ${line}, column ${column}`
}

/** Error for a repeated field in the JSON text of an object. @param place object in the message, such as `the body` */
export function repeatedField(text: string, place: string): ApiError {
  const members = findMembers(text)
  const name = members.kind === 'repeated' ? quoteName(members.name) : 'A field'
  return apiError('invalid_request', `${name} is repeated in ${place}: send it once`)
}

function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return strictUtf8.decode(bytes)
  } catch {
    return undefined
  }
}

/** Value that matches its schema, or the error to return. */
export type Parsed<T> = { readonly kind: 'parsed'; readonly value: T } | ApiError

/**
 * Creates a parser of external values. Its error names up to ten invalid fields and the allowed values, but never contains a value itself.
 * Compiles the schema when it parses the first value: compiling the schemas of all routes would delay the start of every process.
 */
export function createParser<Schema extends TSchema>(
  schema: Schema,
): (value: unknown) => Parsed<Static<Schema>> {
  let compiled: TypeCheck<Schema> | undefined
  return (value) => {
    compiled ??= TypeCompiler.Compile(schema)
    if (compiled.Check(value)) return { kind: 'parsed', value }
    return apiError('invalid_request', describeAll(compiled.Errors(value)))
  }
}

const problemsMax = 10
/** Maximum number of errors examined. A schema can have several errors about one field. */
const errorsMax = 200

/** Describes each invalid field once, and skips a field within an invalid field. */
function describeAll(errors: Iterable<ValueError>): string | undefined {
  const texts = new Map<string, string>()
  let count = 0
  for (const error of errors) {
    if (++count > errorsMax || texts.size > problemsMax) break
    const isKnown = [...texts.keys()].some((path) => error.path === path || error.path.startsWith(`${path}/`))
    if (!isKnown) texts.set(error.path, describe(error))
  }
  const [...all] = texts.values()
  if (all.length === 0) return undefined
  return all.slice(0, problemsMax).join('; ') + (all.length > problemsMax ? '; and more' : '')
}

const fieldsListedMax = 20

function fieldsOf({ properties }: TSchema): string {
  const names = Object.keys(properties as object)
  if (names.length === 0) return ', which takes none'
  const rest = names.length > fieldsListedMax ? ' and more' : ''
  return `: it takes ${names.slice(0, fieldsListedMax).map(quoteName).join(', ')}${rest}`
}

function describe(error: ValueError): string {
  const field = fieldName(error.path)
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return `${field} is required`
    case ValueErrorType.ObjectAdditionalProperties: {
      if (!('patternProperties' in error.schema))
        return `${field} is not a field of this call${fieldsOf(error.schema)}`
      const object = fieldName(error.path.slice(0, error.path.lastIndexOf('/')))
      return `${field} has no valid name: ${object} must be ${expectation(error.schema)}`
    }
    default:
      return `${field} must be ${expectation(error.schema)}`
  }
}

const nameLengthMax = 64

function fieldName(pointer: string): string {
  if (pointer === '') return 'The body'
  return quoteName(pointer.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** Quotes a name from a caller for an error message: truncated to 64 characters, with control characters escaped. */
export function quoteName(name: string): string {
  return JSON.stringify(name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}…` : name)
}

/**
 * Completes the error text `"name" must be …` from the schema. The keyword `expected` replaces the generated text; a schema with a
 * `pattern` needs it, because a regular expression explains nothing to a caller.
 */
export function expectation(schema: JsonSchema): string {
  const { expected, type, anyOf } = schema
  if (typeof expected === 'string') return expected
  if (Array.isArray(anyOf)) return choiceExpectation(anyOf as readonly JsonSchema[])
  if (Array.isArray(schema['enum'])) return `one of ${schema['enum'].join(', ')}`
  if ('const' in schema) return String(schema['const'])
  if (type === 'RegExp') return textExpectation(String(schema['source']))
  if (type === 'integer') return `a whole number${range(schema)}`
  if (type === 'number') return `a number${range(schema)}`
  if (type === 'string') return `a string${lengthExpectation(schema['minLength'], schema['maxLength'])}`
  if (type === 'array')
    return `an array of ${Number(schema['minItems'] ?? 0)} to ${String(schema['maxItems'] ?? 'many')} elements`
  if (type === 'boolean') return 'true or false'
  return type === 'object' ? 'a JSON object' : String(type)
}

function choiceExpectation(choices: readonly JsonSchema[]): string {
  const texts = choices.map(expectation)
  return choices.every((choice) => 'const' in choice) ? `one of ${texts.join(', ')}` : texts.join(', or ')
}

function range({ minimum, maximum }: JsonSchema): string {
  if (minimum === undefined) return maximum === undefined ? '' : ` of at most ${String(maximum)}`
  return maximum === undefined
    ? ` of at least ${String(minimum)}`
    : ` from ${String(minimum)} to ${String(maximum)}`
}

function lengthExpectation(least: unknown, most: unknown): string {
  return most === undefined ? '' : ` of ${String(least ?? 0)} to ${String(most)} characters`
}

function textExpectation(source: string): string {
  const [, least, most] = /\{(\d+),(\d+)\}\$$/.exec(source) ?? []
  const plain = source.includes('\\p{Cc}') ? ' without control characters or U+FFFD' : ''
  return `a string${lengthExpectation(least, most)}${plain}`
}

import type { Static, TSchema } from '@sinclair/typebox'
import { TypeCompiler } from '@sinclair/typebox/compiler'
import { type ValueError, ValueErrorType } from '@sinclair/typebox/errors'
import { type ApiError, apiError } from '#internal/base/index.ts'

/** A value that fits its schema, or why it does not. */
export type Parsed<T> = { readonly kind: 'parsed'; readonly value: T } | ApiError

/**
 * Compiles a schema into a function that takes a value from outside apart. Its error names the first field that is wrong
 * and what would be right, and never repeats the value. A schema may say in `expected` what would be right.
 */
export function createParser<Schema extends TSchema>(
  schema: Schema,
): (value: unknown) => Parsed<Static<Schema>> {
  const compiled = TypeCompiler.Compile(schema)
  return (value) => {
    if (compiled.Check(value)) return { kind: 'parsed', value }
    const error = compiled.Errors(value).First()
    return apiError('invalid_request', error ? describe(error) : undefined)
  }
}

function describe(error: ValueError): string {
  const field = fieldName(error.path)
  switch (error.type) {
    case ValueErrorType.ObjectRequiredProperty:
      return `${field} is required`
    case ValueErrorType.ObjectAdditionalProperties:
      return `${field} is not a field of this call: check its spelling`
    default:
      return `${field} must be ${expectation(error.schema)}`
  }
}

const nameLengthMax = 64

/** A field's name from its JSON pointer. */
function fieldName(pointer: string): string {
  if (pointer === '') return 'The body'
  return quoteName(pointer.slice(1).replaceAll('/', '.').replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** A name that came from outside, for an error's text: cut at 64 characters, its control characters escaped. */
export function quoteName(name: string): string {
  return JSON.stringify(name.length > nameLengthMax ? `${name.slice(0, nameLengthMax)}…` : name)
}

function expectation(schema: TSchema): string {
  if (typeof schema.expected === 'string') return schema.expected
  if (schema.type === 'integer') return `a whole number${range(schema.minimum, schema.maximum)}`
  if (schema.type === 'RegExp') return textExpectation(String(schema.source))
  if (schema.type === 'array')
    return `an array of ${schema.minItems ?? 0} to ${schema.maxItems ?? 'many'} elements`
  if (Array.isArray(schema.enum))
    return `one of ${schema.enum.map((each) => JSON.stringify(each)).join(', ')}`
  if (schema.type === 'string') return 'a string'
  if (schema.type === 'boolean') return 'true or false'
  if (schema.type === 'object') return 'a JSON object'
  return 'of the type that the contract gives'
}

function range(minimum: unknown, maximum: unknown): string {
  if (minimum === undefined && maximum === undefined) return ''
  return ` from ${String(minimum ?? 'any')} to ${String(maximum ?? 'any')}`
}

function textExpectation(source: string): string {
  const letters = /^\^\[A-Za-z\]\{(\d+),\1\}\$$/.exec(source)
  if (letters) return `a string of ${letters[1]} letters`
  const length = /\{(\d+),(\d+)\}\$$/.exec(source)
  const plain = source.includes('\\p{Cc}') ? ' without control characters or U+FFFD' : ''
  return length ? `a string of ${length[1]} to ${length[2]} characters${plain}` : `a string${plain}`
}

import { type SchemaOptions, Type as t } from '@sinclair/typebox'
import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Examples, JsonSchema, Parameter } from './operation.ts'
import { expectation, parseQuery, quoteName } from './parse.ts'

/** Query parameter with its parser and its documentation. */
export interface Param<Value> {
  /** Returns undefined for an invalid value. */
  parse(text: string): Value | undefined
  /** Completes the error text `"name" …` of an invalid value. Default: `must be` and the expectation of the schema. */
  problemOf?(text: string): string
  readonly description: string
  /** Documents the parameter, and gives the error text of an invalid value. */
  readonly schema: JsonSchema
  readonly isRequired?: boolean
  readonly examples?: Examples
}

/** Query parameters by name. */
export type Params = Readonly<Record<string, Param<unknown>>>

/** Parsed query parameters. One that was not sent is absent. */
export type ParamValues<P extends Params> = {
  readonly [Name in keyof P]?: P[Name] extends Param<infer Value> ? Value : never
}

/** Parses the query of a call. Returns 400 for an unknown, malformed or missing parameter. */
export function readParams<P extends Params>(
  url: string,
  params: P,
): { readonly kind: 'read'; readonly values: ParamValues<P> } | ApiError {
  const query = parseQuery(url)
  if (query.kind === 'error') return query
  const read: Record<string, unknown> = {}
  for (const name of Object.keys(query.values)) {
    const param = Object.hasOwn(params, name) ? params[name] : undefined
    if (param === undefined) return unknownParam(name, Object.keys(params))
    const text = query.values[name] ?? ''
    const value = param.parse(text)
    if (value === undefined) {
      const problem = param.problemOf?.(text) ?? `must be ${expectation(param.schema)}`
      return apiError('invalid_request', `"${name}" ${problem}`)
    }
    read[name] = value
  }
  const missing = Object.keys(params).find((name) => params[name]?.isRequired && !(name in read))
  if (missing !== undefined) return apiError('invalid_request', `"${missing}" is required`)
  return { kind: 'read', values: read as ParamValues<P> }
}

function unknownParam(name: string, known: readonly string[]): ApiError {
  const taken = known.length === 0 ? 'no query parameters' : `the query parameters ${known.join(', ')}`
  return apiError(
    'invalid_request',
    `${quoteName(name)} is not a parameter of this call, which takes ${taken}`,
  )
}

/** Pattern of a text without control characters and without U+FFFD, the character that decoders put in place of invalid bytes. */
export function plainTextForm(charsMax: number): RegExp {
  return new RegExp(`^[^\\p{Cc}\\p{Cs}\\uFFFD]{1,${charsMax}}$`, 'u')
}

/** Schema of a text of the form `plainTextForm`. */
export function plainText(charsMax: number, options: SchemaOptions = {}) {
  return t.RegExp(plainTextForm(charsMax), options)
}

/** Schema of a text from a closed set of words. */
export function oneOf<const Words extends readonly string[]>(words: Words, description: string) {
  const pattern = `^(${words.join('|')})$`
  return t.Unsafe<Words[number]>(t.String({ enum: [...words], pattern, description }))
}

/** Parameter with a text of 1 to `charsMax` characters. */
export function textParam(description: string, { charsMax }: { readonly charsMax: number }): Param<string> {
  const form = plainTextForm(charsMax)
  return {
    parse: (text) => (form.test(text) ? text : undefined),
    description,
    schema: plainText(charsMax),
  }
}

/** Parameter that is a whole number, without sign and leading zeros. */
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
    description,
    schema: { type: 'integer', minimum, maximum, ...more },
  }
}

/** Parameter from a closed set of words. */
export function wordParam<const Word extends string>(
  description: string,
  words: readonly Word[],
): Param<Word> {
  return {
    parse: (text) => words.find((word) => word === text),
    description,
    schema: { type: 'string', enum: [...words] },
  }
}

const idempotencyKeyForm = /^[\x20-\x7e]{1,255}$/
const idempotencyKeySchema = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  pattern: '^[ -~]+$',
  expected: '1 to 255 printable ASCII characters, which every client can send in a header',
}

/** Documents the header `Idempotency-Key`. */
export function idempotencyKeyParam(
  documentation: Pick<Parameter, 'required' | 'description' | 'examples'>,
): Parameter {
  return { name: 'Idempotency-Key', in: 'header', ...documentation, schema: idempotencyKeySchema }
}

/** Returns undefined if the header was not sent, and a 400 error if it is malformed. */
export function readIdempotencyKey({ headers }: Request): string | undefined | ApiError {
  const key = headers.get('idempotency-key') ?? undefined
  if (key === undefined || idempotencyKeyForm.test(key)) return key
  return apiError('invalid_request', `The header Idempotency-Key must be ${idempotencyKeySchema.expected}`)
}

/** Documents query parameters. */
export function paramsInDocument(params: Params): Parameter[] {
  return Object.entries(params).map(([name, { description, schema, isRequired = false, examples }]) => ({
    name,
    in: 'query',
    required: isRequired,
    description,
    schema,
    ...(examples && { examples }),
  }))
}

import { idPattern } from '#internal/base/index.ts'
import { ownProvider } from '#internal/events/index.ts'
import { type JsonSchema, mayGrow, named } from '#internal/http/index.ts'
import { acceptedProviderNames, ProviderNameSchema, providerNames } from '#internal/tenants/index.ts'

/** JSON Schema of a response, or of a field of a response, with an example. */
export interface DocumentedAnswer {
  readonly schema: JsonSchema
  /** Undefined if the example of the object must omit this field. */
  readonly example: unknown
}

/** Fields of an object by name. */
export type Fields = Readonly<Record<string, DocumentedAnswer>>

/** Defines a schema, whose example is the argument. */
export const of = (schema: JsonSchema) => (example?: unknown) => ({ schema, example })
/** A text. */
export const text = of({ type: 'string' })
/** An integer. */
export const whole = of({ type: 'integer' })
/** A boolean. */
export const flag = of({ type: 'boolean' })
/** A time in RFC 3339, in UTC. */
export const time = of({ type: 'string', format: 'date-time', pattern: 'Z$' })
/** Headers by name. */
export const headers = of({ type: 'object', additionalProperties: { type: 'string' } })
/** One of these words. */
export const wordOf = (words: readonly string[], example?: string) =>
  of({ type: 'string', enum: words })(example)
/** This word. */
export const constant = (word: string) => of({ type: 'string', const: word })(word)
/** An id with this prefix. */
export const idOf = (prefix: string, example?: string) =>
  of({ type: 'string', pattern: idPattern(prefix) })(example)
/** One of these words, to which a minor version may add. */
export const growingWordOf = (words: readonly string[], example?: string) =>
  of({ type: 'string', enum: words, ...mayGrow })(example)
/** Name of a provider. */
export const providerOf = (example?: string) => growingWordOf(providerNames, example)
/** Name of the provider of an event, or that of notifications. */
export const eventProviderOf = (example?: string) => growingWordOf([...providerNames, ownProvider], example)
/** A value, or null. */
export const orNull = ({ schema, example }: DocumentedAnswer) =>
  of({ anyOf: [schema, { type: 'null' }] })(example)
/** A list, by default with one example. */
export const listOf = ({ schema, example }: DocumentedAnswer, examples: unknown = [example]) =>
  of({ type: 'array', items: schema })(examples)
/** A value with a description. */
export const described = (description: string, { schema, example }: DocumentedAnswer) =>
  of({ ...schema, description })(example)
/** A value that the example of its object omits. */
export const unshown = ({ schema }: DocumentedAnswer) => of(schema)()

/** An object with these required and optional fields. */
export function objectOf(required: Fields, optional: Fields = {}): DocumentedAnswer {
  const fields = Object.entries({ ...required, ...optional })
  const properties = Object.fromEntries(fields.map(([name, { schema }]) => [name, schema]))
  const examples = fields.flatMap(([name, { example }]) => (example === undefined ? [] : [[name, example]]))
  return {
    schema: { type: 'object', required: Object.keys(required), properties },
    example: Object.fromEntries(examples) as unknown,
  }
}

/** Defines a response whose schema is a component of the OpenAPI document. */
export function answer(name: string, { schema, example }: DocumentedAnswer): DocumentedAnswer {
  return { schema: named(name, schema), example }
}

/** Defines the response of a paged list. */
export function pageOf(name: string, item: DocumentedAnswer, next?: string): DocumentedAnswer {
  const description =
    'Cursor to pass as `after` for the next page. A page with fewer items than its limit, or with none, can have a cursor: the search then continues on the next page.'
  return answer(name, objectOf({ items: listOf(item) }, { next: described(description, text(next)) }))
}

/**
 * Marks every set of values in a schema of a Tenant, to which any minor version may add values. Names of providers are such a set, too: those
 * of built-in ones, to which declared ones add. Leaves out what only the API server of a cluster reads.
 */
export function withGrowingSets(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withGrowingSets)
  if (typeof schema !== 'object' || schema === null) return schema
  if (schema === ProviderNameSchema) {
    const { type, description } = ProviderNameSchema
    return { type, enum: acceptedProviderNames, description, ...mayGrow }
  }
  const fields = Object.entries(schema)
    .filter(([name]) => !name.startsWith('x-kubernetes-'))
    .map(([name, inner]) => [name, withGrowingSets(inner)])
  return { ...Object.fromEntries(fields), ...('enum' in schema && mayGrow) }
}

import { idPattern } from '#internal/base/index.ts'
import { ownProvider } from '#internal/events/index.ts'
import { type JsonSchema, mayGrow, named } from '#internal/http/index.ts'
import { acceptedProviderNames, ProviderNameSchema, providerNames } from '#internal/tenants/index.ts'
import type { Ids } from './http-params.ts'

/** JSON Schema of a response or a field, with an example. `Value` is what the use case returns for it. */
export interface DocumentedAnswer<Value = unknown> {
  readonly schema: JsonSchema
  /** Undefined if the example of the object must omit this field. */
  readonly example: unknown
  /** Never set: only carries the type. */
  readonly value?: Value
}

/** Value that a use case returns for an answer. Times are in milliseconds under names that end in `Ms`; `toWire` writes them as text. */
export type ValueOf<Documented> = Documented extends DocumentedAnswer<infer Value> ? Value : never

type Fields = Readonly<Record<string, DocumentedAnswer>>
declare const isTime: unique symbol
interface Time {
  readonly [isTime]: true
}
type InMs<Value> = Value extends Time ? number : Value
type NameInMs<Name, Value> = [Extract<Value, Time>] extends [never] ? Name : `${Name & string}Ms`
type ObjectOf<Required, Optional> = {
  readonly [Name in keyof Required as NameInMs<Name, ValueOf<Required[Name]>>]: InMs<ValueOf<Required[Name]>>
} & {
  readonly [Name in keyof Optional as NameInMs<Name, ValueOf<Optional[Name]>>]?:
    | InMs<ValueOf<Optional[Name]>>
    | undefined
}

export const of =
  <Value>(schema: JsonSchema) =>
  (example?: unknown): DocumentedAnswer<Value> => ({ schema, example })
export const text = of<string>({ type: 'string' })
export const whole = of<number>({ type: 'integer' })
export const flag = of<boolean>({ type: 'boolean' })
/** RFC 3339, in UTC. */
export const time = of<Time>({ type: 'string', format: 'date-time', pattern: 'Z$' })
export const timeText = of<string>(time().schema)
export const headers = of<Readonly<Record<string, string>>>({
  type: 'object',
  additionalProperties: { type: 'string' },
})
export const wordOf = <const Word extends string>(words: readonly Word[], example?: NoInfer<Word>) =>
  of<Word>({ type: 'string', enum: words })(example)
export const constant = <const Word extends string>(word: Word) =>
  of<Word>({ type: 'string', const: word })(word)
export const idOf = <Prefix extends string>(prefix: Prefix, example?: string) =>
  of<Prefix extends keyof Ids ? Ids[Prefix] : string>({ type: 'string', pattern: idPattern(prefix) })(example)
/** Like `wordOf`, but a minor version may add words. */
export const growingWordOf = <const Word extends string>(words: readonly Word[], example?: NoInfer<Word>) =>
  of<Word>({ type: 'string', enum: words, ...mayGrow })(example)
export const providerOf = (example?: string) =>
  of<string>({ type: 'string', enum: providerNames, ...mayGrow })(example)
/** Provider of an event. Includes `latchkey`, the provider of notifications. */
export const eventProviderOf = (example?: string) =>
  of<string>({ type: 'string', enum: [...providerNames, ownProvider], ...mayGrow })(example)
export const orNull = <Value>({ schema, example }: DocumentedAnswer<Value>) =>
  of<Value | null>({ anyOf: [schema, { type: 'null' }] })(example)
export const listOf = <Item>({ schema, example }: DocumentedAnswer<Item>, examples: unknown = [example]) =>
  of<readonly Item[]>({ type: 'array', items: schema })(examples)
export const described = <Value>(description: string, { schema, example }: DocumentedAnswer<Value>) =>
  of<Value>({ ...schema, description })(example)
/** Field that is omitted in the example of its object. */
export const unshown = <Value>({ schema }: DocumentedAnswer<Value>) => of<Value>(schema)()

export function objectOf<
  Required extends Fields,
  // oxlint-disable-next-line typescript/no-generated-empty-object-type -- no optional fields
  Optional extends Fields = Readonly<Record<never, never>>,
>(required: Required, optional?: Optional): DocumentedAnswer<ObjectOf<Required, Optional>> {
  const fields = Object.entries<DocumentedAnswer>({ ...required, ...optional })
  const properties = Object.fromEntries(fields.map(([name, { schema }]) => [name, schema]))
  const examples = fields.flatMap(([name, { example }]) => (example === undefined ? [] : [[name, example]]))
  return {
    schema: { type: 'object', required: Object.keys(required), properties },
    example: Object.fromEntries(examples) as unknown,
  }
}

/** Makes the schema a component of the OpenAPI document. */
export function answer<Value>(
  name: string,
  { schema, example }: DocumentedAnswer<Value>,
): DocumentedAnswer<Value> {
  return { schema: named(name, schema), example }
}

export function pageAnswer<Item>(name: string, item: DocumentedAnswer<Item>, next?: string) {
  const description =
    'Cursor to pass as `after` for the next page. A page with fewer items than its limit, or with none, can have a cursor: the search then continues on the next page.'
  return answer(name, objectOf({ items: listOf(item) }, { next: described(description, text(next)) }))
}

/**
 * Marks every `enum` in the schema of a Tenant as a set to which a minor version may add values. Names of providers become such a set,
 * because declarations add names. Omits fields that only the API server of a cluster reads.
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

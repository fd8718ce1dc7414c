import type { JsonSchema } from './json-schema.ts'

/** One named example of a request body, a parameter or an answer. */
export interface Example {
  readonly summary?: string
  readonly value: unknown
}

/** Examples by name. A request's and its answer's example bear one name, so that a test can send one and expect the other. */
export type Examples = Readonly<Record<string, Example>>

/** The parts of an OpenAPI 3.1 operation that we use: https://spec.openapis.org/oas/v3.1.1.html (read 2026-11). */
export interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly (Parameter | ParameterRef)[]
  readonly requestBody?: RequestBody
  readonly responses: Readonly<Record<string, ResponseObject>>
}

/** A parameter of the path, the query or the headers. One without examples stands in no example call. */
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Examples
}

/** A parameter among the document's components. */
export interface ParameterRef {
  readonly $ref: `#/components/parameters/${string}`
}

/** A request's body by media type. */
export interface RequestBody {
  readonly description?: string
  readonly required: true
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema; readonly examples: Examples }>>
}

/** One status of an operation. */
export interface ResponseObject {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>
  readonly content: {
    readonly 'application/json': { readonly schema: JsonSchema; readonly examples?: Examples }
  }
}

/** Operations by method, by path. */
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** A call that we make: what others answer to it is read by status and headers only. */
export interface OutboundOperation extends Omit<Operation, 'responses'> {
  readonly responses: Readonly<Record<string, Omit<ResponseObject, 'content'>>>
}

/** Calls that we make, by name. */
export type OutboundCalls = Readonly<Record<string, { readonly post: OutboundOperation }>>

/** A JSON request body of one schema. */
export function jsonBody(schema: JsonSchema, examples: Examples): RequestBody {
  return { required: true, content: { 'application/json': { schema, examples } } }
}

/** An answer of one schema; `headers` name components of the document, beside those that every answer carries. */
export function jsonAnswer(
  description: string,
  schema: JsonSchema,
  examples: Examples,
  headers: readonly string[] = [],
): ResponseObject {
  return {
    description,
    headers: headerRefs(['X-Request-Id', ...headers]),
    content: { 'application/json': { schema, examples } },
  }
}

/** References to headers among the document's components. */
export function headerRefs(names: readonly string[]): NonNullable<ResponseObject['headers']> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

/** A reference to a schema among the document's components. */
export function schemaRef(name: string): JsonSchema {
  return { $ref: `#/components/schemas/${name}` }
}

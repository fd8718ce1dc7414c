import type { Static, TSchema } from '@sinclair/typebox'
import { type ApiError, type ErrorCode, errorCodes } from '#internal/base/index.ts'
import { createParser, parseJsonObject, parseQuery } from './parse.ts'
import type { Answer, Call, GuardedRoute, Route } from './route.ts'

/** Limits of the process that serves a document, shown in the document. */
export interface LimitsInDocument {
  readonly recordTtlSecondsMax: number
  readonly recordBodyBytesMax: number
  readonly signatureMaxAgeSeconds: number
}

/** Part of a document that can depend on the limits of the process that serves it. */
export type Documented<Part> = Part | ((limits: LimitsInDocument) => Part)

/**
 * JSON Schema (2020-12) or TypeBox schema. A schema with `$id` becomes a component of the OpenAPI document under that name. The keyword
 * `documented`, a `Documented<JsonSchema>`, replaces the schema in the document.
 */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** Example of a request body, a parameter or a response. */
export interface Example {
  readonly summary?: string
  readonly value: unknown
}

/** Examples by name. A request and its response share the name, so that a test can send the one and expect the other. */
export type Examples = Readonly<Record<string, Example>>

/** Parameter of an operation. */
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Examples
}

/** Request body by media type. */
export interface RequestBody {
  readonly description?: string
  readonly required: boolean
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema; readonly examples: Examples }>>
}

/** Documentation of a response status. `headers` lists components of the OpenAPI document. */
export interface AnswerDoc {
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Examples
  readonly headers?: readonly string[]
  /** Marks server-sent events. Default: JSON. */
  readonly isStream?: true
  /** Marks plain text. Default: JSON. */
  readonly isText?: true
}

/** Documentation of a route, from which `openapi` creates the operation in the OpenAPI document. */
export interface Operation {
  readonly id: string
  readonly tag: string
  readonly summary: string
  readonly description?: Documented<string>
  /** Marks an operation as deprecated under docs/change-policy.md. The description names the replacement. */
  readonly deprecated?: true
  /** Authentication scheme. Absent: the route needs no authentication. */
  readonly security?: 'apiKey' | 'token'
  readonly parameters?: readonly Parameter[]
  /** Header parameters that several operations share, as components of the OpenAPI document. */
  readonly sharedParameters?: readonly Parameter[]
  readonly requestBody?: RequestBody
  /** Responses by status. If `errors` contains the same status, the response is an alternative to the error envelope. */
  readonly answers: Readonly<Record<number, AnswerDoc>>
  readonly errors: readonly ErrorCode[]
  readonly errorTexts?: Readonly<Record<number, string>>
}

/** Route with its documentation. `Parts` are the dependencies of the route. */
export interface RoomRoute<Parts, Bound = Route<never, never>> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** Path such as `/v1/record`. `:name` is a parameter. */
  readonly path: string
  readonly operation: Operation
  bind(parts: Parts): Bound
}

/** Request whose body and query match the schemas of its route. */
export interface ParsedCall<Body extends TSchema, Query extends TSchema = TSchema> {
  readonly call: Call
  readonly body: Static<Body>
  /** JSON text as received; empty without a body. */
  readonly text: string
  readonly query: Static<Query>
}

export interface KeyedRoute<Parts, Principal, Scope, Body extends TSchema, Query extends TSchema> {
  readonly method: RoomRoute<Parts>['method']
  readonly path: string
  readonly scope: Scope
  readonly body?: Body
  bodyBytesMax?(parts: Parts): number
  readonly query?: Query
  readonly operation: Omit<Operation, 'security' | 'requestBody'> & {
    /** Bodies, or values of the query parameters, by name of the example. */
    readonly examples: Examples
  }
  onInvalid?(error: ApiError, parts: Parts): void
  handle(
    call: ParsedCall<Body, Query>,
    principal: Principal,
    parts: Parts,
  ): Promise<Answer | ApiError> | Answer | ApiError
}

/** Defines a route for API keys. Its schemas validate the body and the query, and are part of the OpenAPI document. */
export function route<
  Parts,
  Principal,
  const Scope extends string,
  Body extends TSchema,
  Query extends TSchema,
>(
  definition: KeyedRoute<Parts, Principal, Scope, Body, Query>,
): RoomRoute<Parts, GuardedRoute<Principal, Scope>> {
  const { method, path, scope, body, query, operation } = definition
  const { examples, parameters = [], ...documented } = operation
  const parse = createCallParser(body, query)
  return {
    method,
    path,
    operation: {
      ...documented,
      security: 'apiKey',
      ...((query || parameters.length > 0) && {
        parameters: [...parameters, ...(query ? queryParameters(query, examples) : [])],
      }),
      ...(body && {
        requestBody: { required: true, content: { 'application/json': { schema: body, examples } } },
      }),
    },
    bind: (parts) => ({
      method,
      path,
      access: { scope },
      bodyBytesMax: definition.bodyBytesMax?.(parts) ?? 0,
      handle(call, principal) {
        const parsed = parse(call)
        if (!('kind' in parsed)) return definition.handle(parsed, principal, parts)
        definition.onInvalid?.(parsed, parts)
        return parsed
      },
    }),
  }
}

/** Binds routes to their dependencies. */
export function bindRoutes<Parts, Bound>(
  routes: readonly RoomRoute<Parts, Bound>[],
  parts: Parts,
): readonly Bound[] {
  return routes.map((each) => each.bind(parts))
}

/**
 * Compiles the schemas of a route into a parser of its requests. Without a schema, the body or the query is not parsed.
 * @param isBodyOptional true: a missing body counts as `{}`
 */
export function createCallParser<Body extends TSchema, Query extends TSchema>(
  body: Body | undefined,
  query: Query | undefined,
  isBodyOptional = false,
): (call: Call) => ParsedCall<Body, Query> | ApiError {
  const parseBody = body && createParser(body)
  const parseValues = query && createParser(query)
  return (call) => {
    const parsed = { call, body: undefined as Static<Body>, text: '', query: undefined as Static<Query> }
    if (parseBody) {
      const json = parseJsonObject(isBodyOptional && call.body.length === 0 ? noFields : call.body)
      if (json.kind === 'error') return json
      const fitting = parseBody(json.value)
      if (fitting.kind === 'error') return fitting
      parsed.body = fitting.value
      parsed.text = json.text
    }
    if (parseValues) {
      const read = parseQuery(call.request.url)
      if (read.kind === 'error') return read
      const fitting = parseValues(read.values)
      if (fitting.kind === 'error') return fitting
      parsed.query = fitting.value
    }
    return parsed
  }
}

const noFields = new TextEncoder().encode('{}')

function queryParameters(schema: TSchema, examples: Examples): Parameter[] {
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(schema.properties as Record<string, TSchema>).map(([name, property]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    schema: property,
    description: property.description ?? '',
    examples: Object.fromEntries(
      Object.entries(examples).flatMap(([example, { value }]): [string, Example][] => {
        const values = value as Readonly<Record<string, unknown>>
        return values[name] === undefined ? [] : [[example, { value: values[name] }]]
      }),
    ),
  }))
}

/** Sets the `$id` of a schema, so that it becomes a component of the OpenAPI document. */
export function named<Schema extends JsonSchema>(
  name: string,
  schema: Schema,
): Schema & { readonly $id: string } {
  return { ...schema, $id: name }
}

/** Marks values of an answer to which a minor version may add more (docs/change-policy.md). */
export const mayGrow = { 'x-may-grow': true } as const

const internalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['unauthenticated', 'forbidden'])

/** Error codes of the public API contract. */
export const publicErrorCodes: readonly ErrorCode[] = errorCodes.filter((code) => !internalCodes.has(code))

/** Schema of the error envelope of an API with these error codes. */
export function errorSchemaOf(codes: readonly ErrorCode[]) {
  return {
    type: 'object',
    required: ['message', 'error', 'statusCode', 'code', 'requestId'],
    properties: {
      message: { type: 'string', description: 'Problem and next step.' },
      error: { type: 'string', description: 'Reason phrase of the status (RFC 9110).' },
      statusCode: { type: 'integer', description: 'HTTP status.' },
      code: { type: 'string', enum: codes, ...mayGrow, description: 'Stable name of the error.' },
      requestId: { type: 'string', description: 'Id of this request in the logs.' },
    },
  }
}

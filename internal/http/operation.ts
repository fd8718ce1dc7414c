import type { Static, TSchema } from '@sinclair/typebox'
import { type ApiError, type ErrorCode, errorCodes } from '#internal/base/index.ts'
import { createParser, parseJsonObject, parseQuery } from './parse.ts'
import type { Answer, Call, GuardedRoute, Route } from './route.ts'

/** A JSON Schema (2020-12), also a TypeBox schema. One with `$id` becomes a component of the document under that name. */
export type JsonSchema = { readonly [keyword: string]: unknown }

/** An example of a request body, a parameter or an answer. */
export interface Example {
  readonly summary?: string
  readonly value: unknown
}

/** Examples by name. The examples of a call and of its answer share a name, so that a test can send one and expect the other. */
export type Examples = Readonly<Record<string, Example>>

/** A parameter of an operation. */
export interface Parameter {
  readonly name: string
  readonly in: 'path' | 'query' | 'header'
  readonly required: boolean
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Examples
}

/** A request body by media type. */
export interface RequestBody {
  readonly description?: string
  readonly required: true
  readonly content: Readonly<Record<string, { readonly schema: JsonSchema; readonly examples: Examples }>>
}

/** Documentation of a status: `headers` names components of the document. */
export interface AnswerDoc {
  readonly description: string
  readonly schema: JsonSchema
  readonly examples?: Examples
  readonly headers?: readonly string[]
}

/** Documentation of a route. `openapi` assembles the document's operation from it. */
export interface Operation {
  readonly id: string
  readonly tag: string
  readonly summary: string
  readonly description?: string
  /** Absent: no authentication. */
  readonly security?: 'apiKey' | 'token'
  readonly parameters?: readonly Parameter[]
  /** Header parameters that several operations share, as components of the document. */
  readonly sharedParameters?: readonly Parameter[]
  readonly requestBody?: RequestBody
  /** Answers by status. One whose status `errors` have too is an alternative to the envelope. */
  readonly answers: Readonly<Record<number, AnswerDoc>>
  readonly errors: readonly ErrorCode[]
  /** Descriptions of error statuses, in place of the common ones. */
  readonly errorTexts?: Readonly<Record<number, string>>
}

/** A route with its documentation; `Parts` are what its room runs on. */
export interface RoomRoute<Parts, Bound = Route<never, never>> {
  readonly method: 'GET' | 'POST' | 'PUT' | 'DELETE'
  /** For example `/v1/record`; `:name` is a parameter. */
  readonly path: string
  readonly operation: Operation
  bind(parts: Parts): Bound
}

/** A call whose body and query fit the schemas of its route. */
export interface ParsedCall<Body extends TSchema, Query extends TSchema = TSchema> {
  readonly call: Call
  readonly body: Static<Body>
  /** JSON text of the body as received; '' without a body. */
  readonly text: string
  readonly query: Static<Query>
}

/** A route for API keys of a scope: schemas, documentation and handler. */
export interface KeyedRoute<Parts, Principal, Scope, Body extends TSchema, Query extends TSchema> {
  readonly method: RoomRoute<Parts>['method']
  readonly path: string
  readonly scope: Scope
  readonly body?: Body
  bodyBytesMax?(parts: Parts): number
  readonly query?: Query
  readonly operation: Omit<Operation, 'security' | 'requestBody'> & {
    /** Bodies, or values of the query's parameters, by the name of the example. */
    readonly examples: Examples
  }
  /** Called for a body that does not fit the schema. */
  onInvalid?(error: ApiError, parts: Parts): void
  handle(
    call: ParsedCall<Body, Query>,
    principal: Principal,
    parts: Parts,
  ): Promise<Answer | ApiError> | Answer | ApiError
}

/** Defines a route for API keys: its schemas parse body and query, and stand in the document. */
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
      ...{ method, path, access: { scope } },
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

/** Binds the routes of a room to what the room runs on. */
export function bindRoutes<Parts, Bound>(
  routes: readonly RoomRoute<Parts, Bound>[],
  parts: Parts,
): readonly Bound[] {
  return routes.map((each) => each.bind(parts))
}

/** Compiles the schemas of a route into a parser of its calls; undefined for a part that the route does not parse. */
export function createCallParser<Body extends TSchema, Query extends TSchema>(
  body: Body | undefined,
  query: Query | undefined,
): (call: Call) => ParsedCall<Body, Query> | ApiError {
  const parseBody = body && createParser(body)
  const parseValues = query && createParser(query)
  return (call) => {
    const parsed = { call, body: undefined as Static<Body>, text: '', query: undefined as Static<Query> }
    if (parseBody) {
      const json = parseJsonObject(call.body)
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

/** Returns a parameter for each property of a query's schema, with the examples' values for it. */
function queryParameters(schema: TSchema, examples: Examples): Parameter[] {
  const required: readonly unknown[] = Array.isArray(schema.required) ? schema.required : []
  return Object.entries(schema.properties as Record<string, TSchema>).map(([name, property]) => ({
    ...{ name, in: 'query', required: required.includes(name), schema: property },
    description: property.description ?? '',
    examples: Object.fromEntries(
      Object.entries(examples).flatMap(([example, { value }]): [string, Example][] => {
        const values = value as Readonly<Record<string, unknown>>
        return values[name] === undefined ? [] : [[example, { value: values[name] }]]
      }),
    ),
  }))
}

/** Names a schema, as a component of the document. */
export function named<Schema extends JsonSchema>(
  name: string,
  schema: Schema,
): Schema & { readonly $id: string } {
  return { ...schema, $id: name }
}

/** Codes of the internal API only. */
const internalCodes: ReadonlySet<ErrorCode> = new Set<ErrorCode>([
  ...(['unauthenticated', 'forbidden', 'not_found', 'conflict', 'too_many', 'unavailable'] as const),
])

/** Codes of the public contract. */
export const publicErrorCodes: readonly ErrorCode[] = errorCodes.filter((code) => !internalCodes.has(code))

/** Returns the schema of the error envelope for an API that uses these codes. */
export function errorSchemaOf(codes: readonly ErrorCode[]) {
  return {
    type: 'object',
    required: ['message', 'error', 'statusCode', 'code', 'requestId'],
    properties: {
      message: { type: 'string', description: 'Problem and next step.' },
      error: { type: 'string', description: 'Reason phrase of the status (RFC 9110).' },
      statusCode: { type: 'integer', description: 'HTTP status.' },
      code: { type: 'string', enum: codes, description: 'Stable name of the error.' },
      requestId: { type: 'string', description: 'Id of this request in the logs.' },
    },
  }
}

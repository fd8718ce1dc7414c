import { type ErrorCode, errorEnvelope, statusOf } from '#internal/base/index.ts'
import {
  type AnswerDoc,
  type Example,
  type Examples,
  errorSchemaOf,
  type JsonSchema,
  type Operation as OperationDoc,
  type Parameter,
  type RequestBody,
  type RoomRoute,
} from '#internal/http/index.ts'

/** The fields of an OpenAPI 3.1 operation that Latchkey uses: https://spec.openapis.org/oas/v3.1.1.html (read 2026-11). */
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

/** Reference to a parameter in the components of the document. */
export interface ParameterRef {
  readonly $ref: `#/components/parameters/${string}`
}

/** Response of an operation for one status code. */
export interface ResponseObject {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>
  readonly content: {
    readonly 'application/json': { readonly schema: JsonSchema; readonly examples?: Examples }
  }
}

/** Operations by path and method. */
export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** An operation that Latchkey calls on the callback. Latchkey reads only the status and the headers of its response. */
export interface OutboundOperation extends Omit<Operation, 'responses'> {
  readonly responses: Readonly<Record<string, Omit<ResponseObject, 'content'>>>
}

/** The properties of a route that appear in the document. */
export type DocumentedRoute = Pick<RoomRoute<never, unknown>, 'method' | 'path' | 'operation'>

/** Builds the operations of routes and collects the components that they reference. */
export class DocumentBuilder {
  readonly #schemas: Record<string, JsonSchema> = {}
  readonly #parameters: Record<string, Parameter> = {}
  readonly #codes = new Set<ErrorCode>()
  readonly #headers: ReadonlySet<string>

  /** @param headers names of the header components; error responses omit all other headers */
  constructor(headers: readonly string[]) {
    this.#headers = new Set(headers)
  }

  /** Schemas that were referenced, including `Error`. */
  get schemas(): Readonly<Record<string, JsonSchema>> {
    return { Error: errorSchemaOf([...this.#codes]), ...this.#schemas }
  }

  /** Shared parameters that were referenced. */
  get parameters(): Readonly<Record<string, Parameter>> {
    return this.#parameters
  }

  pathsOf(routes: readonly DocumentedRoute[]): Paths {
    const paths: Record<string, Record<string, Operation>> = {}
    for (const { method, path: pattern, operation } of routes) {
      const path = pattern.replaceAll(/:(\w+)/g, '{$1}')
      paths[path] = { ...paths[path], [method.toLowerCase()]: this.#operationOf(operation) }
    }
    return paths
  }

  #operationOf(operation: OperationDoc): Operation {
    const { id, tag, summary, description, security, parameters, sharedParameters = [] } = operation
    const { requestBody, answers, errors, errorTexts = {} } = operation
    const refs = sharedParameters.map((shared): ParameterRef => {
      this.#parameters[shared.name] = this.#parameter(shared)
      return { $ref: `#/components/parameters/${shared.name}` }
    })
    const responses: Record<string, ResponseObject> = this.errorAnswers(errors, errorTexts)
    for (const [status, answer] of Object.entries(answers))
      responses[status] = this.#answer(answer, responses[status])
    return {
      ...{ operationId: id, summary, tags: [tag] },
      ...(description !== undefined && { description }),
      security: security === undefined ? [] : [{ [security]: [] }],
      ...((parameters || refs.length > 0) && {
        parameters: [...(parameters ?? []).map((each) => this.#parameter(each)), ...refs],
      }),
      ...(requestBody && { requestBody: this.requestBody(requestBody) }),
      responses,
    }
  }

  /** Returns the error responses by status, with an example for every error code. */
  errorAnswers(
    codes: readonly ErrorCode[],
    texts: Readonly<Record<number, string>> = {},
  ): Record<string, ResponseObject> {
    const statuses = [...new Set(codes.map(statusOf))].sort((one, other) => one - other)
    for (const code of codes) this.#codes.add(code)
    return Object.fromEntries(
      statuses.map((status) => {
        const own = codes.filter((code) => statusOf(code) === status)
        const headers = (errorHeaders[status] ?? []).filter((name) => this.#headers.has(name))
        const description = texts[status] ?? errorDescriptions[status] ?? ''
        const examples = Object.fromEntries(own.map(exampleOf))
        return [String(status), responseOf(description, errorRef, examples, headers)]
      }),
    )
  }

  /** Builds a response. @param envelope error response with the same status; its schema becomes an alternative */
  #answer({ description, schema, examples = {}, headers }: AnswerDoc, envelope?: ResponseObject) {
    const own = this.schema(schema)
    if (!envelope) return responseOf(description, own, examples, headers)
    const { examples: more } = envelope.content['application/json']
    return responseOf(description, { anyOf: [own, errorRef] }, { ...examples, ...more }, headers)
  }

  #parameter(parameter: Parameter): Parameter {
    return { ...parameter, schema: this.schema(parameter.schema) }
  }

  requestBody({ content, ...rest }: RequestBody): RequestBody {
    const media = Object.entries(content).map(([type, { schema, examples }]) => [
      type,
      { schema: this.schema(schema), examples },
    ])
    return { ...rest, content: Object.fromEntries(media) as RequestBody['content'] }
  }

  /**
   * Converts a schema to plain JSON Schema. A named schema becomes a component and is referenced. A regular expression with flags becomes a
   * string pattern that engines without Unicode property support understand.
   */
  schema(schema: JsonSchema): JsonSchema {
    return this.#convert(schema) as JsonSchema
  }

  #convert(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#convert(each))
    if (typeof value !== 'object' || value === null) return value
    const { $id: name, documented, ...rest } = value as Readonly<Record<string, unknown>>
    if (documented !== undefined) return this.#convert(documented)
    if (typeof name === 'string') {
      this.#schemas[name] ??= this.#convert(rest) as JsonSchema
      return { $ref: `#/components/schemas/${name}` }
    }
    const fields = Object.fromEntries(Object.entries(rest).map(([key, inner]) => [key, this.#convert(inner)]))
    return fields['type'] === 'RegExp' ? textSchema(fields) : fields
  }
}

const errorRef: JsonSchema = { $ref: '#/components/schemas/Error' }

function responseOf(
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

/** Returns references to header components of the document. */
export function headerRefs(names: readonly string[]): NonNullable<ResponseObject['headers']> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

function exampleOf(code: ErrorCode): [string, Example] {
  return [code, { value: errorEnvelope({ kind: 'error', code }, 'req-7f3a') }]
}

const errorDescriptions: Readonly<Record<number, string>> = {
  400: 'The request is not valid.',
  403: 'The API key is missing, unknown, expired or lacks the scope; or the tenant is suspended.',
  404: 'There is nothing at this path.',
  405: 'This path does not take this method.',
  409: 'Another caller owns the lock or the record by now. Nothing was changed.',
  413: 'The body is too long. It was not read completely.',
  422: 'The scope and key were used with another fingerprint.',
  429: 'A usage limit is exceeded.',
  500: 'An unexpected error of the server.',
  503: 'The store, or this process, cannot answer now. The state of the key is unknown: repeat the call.',
  508: 'The event was forwarded back to Latchkey too often.',
}

const errorHeaders: Readonly<Record<number, readonly string[]>> = {
  401: ['WWW-Authenticate'],
  405: ['Allow'],
  429: ['Retry-After', 'RateLimit', 'RateLimit-Policy'],
  503: ['Retry-After'],
}

function textSchema(schema: Readonly<Record<string, unknown>>): JsonSchema {
  const { source, flags: _flags, type: _type, expected: _expected, ...rest } = schema
  const [, characters = '', least = '0', most = '0'] = /^\^(.*)\{(\d+),(\d+)\}\$$/.exec(String(source)) ?? []
  const plain = characters === '[^]' ? {} : { pattern: `^${portable(characters)}*$` }
  return { type: 'string', minLength: Number(least), maxLength: Number(most), ...plain, ...rest }
}

/**
 * Replaces Unicode property classes by explicit character ranges. Omits the class of lone surrogates: UTF-8 cannot encode them, and no
 * portable pattern can match those that are escaped in JSON. The server refuses these.
 */
function portable(characters: string): string {
  return characters.replaceAll('\\p{Cc}', '\\u0000-\\u001f\\u007f-\\u009f').replaceAll('\\p{Cs}', '')
}

/** Documents the route that serves the document itself. */
export function documentRoute(path: string): DocumentedRoute {
  const answers = { 200: { description: 'OpenAPI 3.1.', schema: { type: 'object' } } }
  return {
    ...{ method: 'GET', path },
    operation: { id: 'readContract', tag: 'contract', summary: 'This document', answers, errors: [] },
  }
}

import { type ApiError, apiError, type ErrorCode, errorEnvelope, statusOf } from '#internal/base/index.ts'
import {
  type AnswerDoc,
  type Documented,
  type Example,
  type Examples,
  errorSchemaOf,
  type JsonSchema,
  type LimitsInDocument,
  type Operation as OperationDoc,
  type Parameter,
  type RequestBody,
  type RoomRoute,
  routeUnknown,
} from '#internal/http/index.ts'

/** Fields of an OpenAPI 3.1 operation that Latchkey uses: https://spec.openapis.org/oas/v3.1.1.html (read 2026-11). */
export interface Operation {
  readonly operationId: string
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  readonly deprecated?: true
  readonly security?: readonly Readonly<Record<string, readonly string[]>>[]
  readonly parameters?: readonly (Parameter | ParameterRef)[]
  readonly requestBody?: RequestBody
  readonly responses: Readonly<Record<string, ResponseObject>>
}

export interface ParameterRef {
  readonly $ref: `#/components/parameters/${string}`
}

interface Media {
  readonly schema: JsonSchema
  readonly examples?: Examples
}

export interface ResponseObject {
  readonly description: string
  readonly headers?: Readonly<Record<string, { readonly $ref: string }>>
  /** Only a stream has another media type than JSON. */
  readonly content: { readonly 'application/json'?: Media; readonly 'text/event-stream'?: Media }
}

export type Paths = Readonly<Record<string, Readonly<Record<string, Operation>>>>

/** Operation that Latchkey calls on a callback. Latchkey reads only the status and the headers of the response. */
export interface OutboundOperation extends Omit<Operation, 'responses'> {
  readonly responses: Readonly<Record<string, Omit<ResponseObject, 'content'>>>
}

export type DocumentedRoute = Pick<RoomRoute<never, unknown>, 'method' | 'path' | 'operation'>

/** Collects the components that the built operations reference. */
export class DocumentBuilder {
  readonly #schemas: Record<string, JsonSchema> = {}
  readonly #parameters: Record<string, Parameter> = {}
  readonly #codes = new Set<ErrorCode>()
  readonly #headers: ReadonlySet<string>
  readonly #limits: LimitsInDocument | undefined

  /**
   * @param headers names of the header components; error responses omit all other headers
   * @param limits of the process that serves the document; required if a route documents a limit
   */
  constructor(headers: readonly string[], limits?: LimitsInDocument) {
    this.#headers = new Set(headers)
    this.#limits = limits
  }

  get schemas(): Readonly<Record<string, JsonSchema>> {
    return { Error: errorSchemaOf([...this.#codes]), ...this.#schemas }
  }

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
    const {
      id,
      tag,
      summary,
      description,
      deprecated,
      security,
      parameters,
      sharedParameters = [],
    } = operation
    const { requestBody, answers, errors, errorTexts = {} } = operation
    const refs = sharedParameters.map((shared): ParameterRef => {
      this.#parameters[shared.name] = this.#parameter(shared)
      return { $ref: `#/components/parameters/${shared.name}` }
    })
    const responses: Record<string, ResponseObject> = this.errorAnswers(errors, errorTexts)
    for (const [status, answer] of Object.entries(answers))
      responses[status] = this.#answer(answer, responses[status])
    return {
      operationId: id,
      summary,
      tags: [tag],
      ...(description !== undefined && { description: this.#resolve(description) }),
      ...(deprecated && { deprecated }),
      security: security === undefined ? [] : [{ [security]: [] }],
      ...((parameters || refs.length > 0) && {
        parameters: [...(parameters ?? []).map((each) => this.#parameter(each)), ...refs],
      }),
      ...(requestBody && { requestBody: this.requestBody(requestBody) }),
      responses,
    }
  }

  errorAnswers(
    codes: readonly ErrorCode[],
    texts: Readonly<Record<number, string>> = {},
    examplesOf: (code: ErrorCode) => ApiError = apiError,
  ): Record<string, ResponseObject> {
    const statuses = [...new Set(codes.map(statusOf))].sort((one, other) => one - other)
    for (const code of codes) this.#codes.add(code)
    return Object.fromEntries(
      statuses.map((status) => {
        const own = codes.filter((code) => statusOf(code) === status)
        const headers = ['Link', ...(errorHeaders[status] ?? [])].filter((name) => this.#headers.has(name))
        const description = texts[status] ?? errorDescriptions[status] ?? ''
        const examples = Object.fromEntries(own.map((code) => exampleOf(examplesOf(code))))
        return [String(status), responseOf(description, errorRef, examples, { headers })]
      }),
    )
  }

  /** @param envelope error response with the same status; its schema becomes an alternative */
  #answer({ description, schema, examples = {}, ...form }: AnswerDoc, envelope?: ResponseObject) {
    const own = this.schema(schema)
    if (!envelope) return responseOf(description, own, examples, form)
    const more = envelope.content['application/json']?.examples
    const headers = ['Link', ...(form.headers ?? [])]
    return responseOf(description, { anyOf: [own, errorRef] }, { ...examples, ...more }, { ...form, headers })
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

  /** Turns named schemas into references, and regular expressions with flags into patterns that ECMA-262, RE2 and Python read alike. */
  schema(schema: JsonSchema): JsonSchema {
    return this.#convert(schema) as JsonSchema
  }

  #convert(value: unknown): unknown {
    if (Array.isArray(value)) return value.map((each) => this.#convert(each))
    if (typeof value !== 'object' || value === null) return value
    const { $id: name, documented, ...rest } = value as Readonly<Record<string, unknown>>
    if (documented !== undefined) return this.#convert(this.#resolve(documented as Documented<JsonSchema>))
    if (typeof name === 'string') {
      this.#schemas[name] ??= this.#convert(rest) as JsonSchema
      return { $ref: `#/components/schemas/${name}` }
    }
    // Omits `expected`, the error text of the server's parser, but keeps a property of that name, whose value is an object.
    const kept = Object.entries(rest).filter(
      ([key, inner]) => key !== 'expected' || typeof inner === 'object',
    )
    const fields = Object.fromEntries(kept.map(([key, inner]) => [key, this.#convert(inner)]))
    if (fields['type'] === 'RegExp') return textSchema(fields)
    // Allows any property explicitly: otherwise, generators read an object without listed properties as an empty object.
    const isOpen =
      fields['type'] === 'object' && !('properties' in fields || 'additionalProperties' in fields)
    if (isOpen) return { ...fields, additionalProperties: true }
    // Omits `pattern` next to `enum`: both list the same words, and only the parser of requests needs the pattern.
    const { pattern, ...withoutPattern } = fields
    return Array.isArray(fields['enum']) && typeof pattern === 'string' ? withoutPattern : fields
  }

  #resolve<Part>(part: Documented<Part>): Part {
    if (!isResolver(part)) return part
    if (this.#limits === undefined) throw new Error('the document builder needs `limits`')
    return part(this.#limits)
  }
}

function isResolver<Part>(part: Documented<Part>): part is (limits: LimitsInDocument) => Part {
  return typeof part === 'function'
}

const errorRef: JsonSchema = { $ref: '#/components/schemas/Error' }

function responseOf(
  description: string,
  schema: JsonSchema,
  examples: Examples,
  { headers = [], isStream, isText }: Pick<AnswerDoc, 'headers' | 'isStream' | 'isText'> = {},
): ResponseObject {
  return {
    description,
    headers: headerRefs(['X-Request-Id', ...headers]),
    content: {
      [isStream ? 'text/event-stream' : isText ? 'text/plain' : 'application/json']: { schema, examples },
    },
  }
}

export function headerRefs(names: readonly string[]): NonNullable<ResponseObject['headers']> {
  return Object.fromEntries(names.map((name) => [name, { $ref: `#/components/headers/${name}` }]))
}

function exampleOf(error: ApiError): [string, Example] {
  return [error.code, { value: errorEnvelope(error, 'req-7f3a') }]
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
  const { source, flags: _flags, type: _type, ...rest } = schema
  const [, characters = '', least = '0', most = '0'] = /^\^(.*)\{(\d+),(\d+)\}\$$/.exec(String(source)) ?? []
  const plain = characters === '[^]' ? {} : { pattern: `^${portable(characters)}*$` }
  return { type: 'string', minLength: Number(least), maxLength: Number(most), ...plain, ...rest }
}

/**
 * Writes a character class so that ECMA-262, RE2 and Python read it alike: Unicode property classes become ranges, and escapes with `\\u`
 * become `\\x` or the character itself. Omits lone surrogates, which the server refuses: UTF-8 cannot encode them, and no portable pattern
 * matches those that are escaped in JSON.
 */
function portable(characters: string): string {
  return characters
    .replaceAll('\\p{Cc}', '\\x00-\\x1f\\x7f-\\x9f')
    .replaceAll('\\p{Cs}', '')
    .replaceAll(/\\u00([0-9a-f]{2})/gi, '\\x$1')
    .replaceAll(/\\u([0-9a-f]{4})/gi, (_escape, code: string) =>
      String.fromCharCode(Number.parseInt(code, 16)),
    )
}

/** Header with the link of an error, in the public and the internal document. */
export const errorLink = {
  description:
    'Page of the error in the documentation: `<URL>; rel="help"` (RFC 8288). Absent where the installation has no address of the documentation.',
  schema: { type: 'string' },
}

/** Text of a document about the responses to calls without an operation (`unroutedResponses`). */
export const unroutedText =
  'Calls without an operation also get a response: `RouteUnknown` for another path, `MethodNotAllowed` for another method, `HeadTooLong` for a request line and headers over 16 KiB. HEAD is handled like GET, without the response body.'

export function unroutedResponses(builder: DocumentBuilder, documentPath: string) {
  const { 404: RouteUnknown, 405: MethodNotAllowed } = builder.errorAnswers(
    ['route_unknown', 'method_not_allowed'],
    {},
    (code) => (code === 'route_unknown' ? routeUnknown(documentPath) : apiError(code)),
  )
  const HeadTooLong = { description: 'Status 431, without a body. The connection is closed.' }
  return { RouteUnknown, MethodNotAllowed, HeadTooLong }
}

export interface Server {
  readonly url: string
  readonly description: string
}

/** Host of the document. Behind a proxy that adds a path, it is not the whole URL. */
export const ownServer: Server = { url: '/', description: 'The host that serves this document.' }

export function documentRoute(path: string): DocumentedRoute {
  const answers = { 200: { description: 'OpenAPI 3.1.', schema: { type: 'object' } } }
  return {
    method: 'GET',
    path,
    operation: {
      id: 'readContract',
      tag: 'contract',
      summary: 'This document',
      answers,
      errors: [],
      description: 'OpenAPI 3.1, with every operation of this API. Requires no authentication.',
    },
  }
}

import { mapValues, plainSchema, sortKeys } from './plain.ts'
import {
  type Comparison,
  compareSchemas,
  type Difference,
  type Direction,
  type Schema,
  type Schemas,
} from './schema-diff.ts'

/** An operation without prose. Parameters and headers are the properties of one object each. */
interface PlainOperation {
  readonly id: string
  readonly security: readonly string[]
  readonly deprecated?: true
  /** Properties by place and name, such as `query after`. */
  readonly parameters: Schema
  readonly body: Schemas
  readonly answers: Readonly<Record<string, PlainAnswer>>
}

interface PlainAnswer {
  readonly headers: readonly string[]
  readonly content: Schemas
}

/** OpenAPI document without prose. */
export interface PlainDocument {
  /** By method and path. */
  readonly operations: Readonly<Record<string, PlainOperation>>
  /** Calls that Latchkey makes. */
  readonly calls: Readonly<Record<string, PlainOperation>>
  readonly schemas: Schemas
}

/** The parts of an OpenAPI document that are read here. */
export interface OpenApi {
  readonly paths: OpenApiPaths
  readonly webhooks?: OpenApiPaths
  readonly components: {
    readonly schemas: Readonly<Record<string, object>>
    readonly parameters: Readonly<Record<string, OpenApiParameter>>
  }
}

type OpenApiPaths = Readonly<Record<string, Readonly<Record<string, OpenApiOperation>>>>
type OpenApiParameter =
  | { readonly $ref: string }
  | { readonly name: string; readonly in: string; readonly required: boolean; readonly schema: object }

type Content = Readonly<Record<string, { readonly schema: object }>>

interface OpenApiOperation {
  readonly operationId: string
  readonly deprecated?: boolean
  readonly security?: readonly object[]
  readonly parameters?: readonly OpenApiParameter[]
  readonly requestBody?: { readonly content: Content }
  readonly responses: Readonly<Record<string, { readonly headers?: object; readonly content?: Content }>>
}

/** Returns a document without prose, sorted. */
export function plainDocument(document: OpenApi): PlainDocument {
  const { parameters, schemas } = document.components
  const operationsOf = (paths: OpenApiPaths) =>
    sortKeys(
      Object.fromEntries(
        Object.entries(paths).flatMap(([path, methods]) =>
          Object.entries(methods).map(([method, operation]) => [
            `${method.toUpperCase()} ${path}`,
            plainOperation(operation, parameters),
          ]),
        ),
      ),
    )
  return {
    operations: operationsOf(document.paths),
    calls: operationsOf(document.webhooks ?? {}),
    schemas: mapValues(schemas, plainSchema),
  }
}

function plainOperation(
  operation: OpenApiOperation,
  shared: OpenApi['components']['parameters'],
): PlainOperation {
  const parameters = (operation.parameters ?? []).flatMap((each) => {
    const found = '$ref' in each ? shared[each.$ref.split('/').at(-1) ?? ''] : each
    return found === undefined || '$ref' in found ? [] : [found]
  })
  const keyOf = (each: { readonly in: string; readonly name: string }) => `${each.in} ${each.name}`
  const contentOf = (content: Content) => mapValues(content, ({ schema }) => plainSchema(schema))
  return {
    id: operation.operationId,
    security: (operation.security ?? []).flatMap((each) => Object.keys(each)).toSorted(),
    ...(operation.deprecated && { deprecated: true as const }),
    parameters: {
      properties: sortKeys(
        Object.fromEntries(parameters.map((each) => [keyOf(each), plainSchema(each.schema)])),
      ),
      required: parameters
        .filter(({ required }) => required)
        .map(keyOf)
        .toSorted(),
    },
    body: contentOf(operation.requestBody?.content ?? {}),
    answers: mapValues(operation.responses, ({ headers = {}, content = {} }) => ({
      headers: Object.keys(headers).toSorted(),
      content: contentOf(content),
    })),
  }
}

/** Returns the differences between two versions of a document. */
export function compareDocuments(older: PlainDocument, newer: PlainDocument): readonly Difference[] {
  const found: Difference[] = []
  const shared = { older: older.schemas, newer: newer.schemas, compared: new Set<string>() }
  const report = (difference: Difference) => void found.push(difference)
  const operations = { ...shared, report, direction: 'request' } as const
  compareOperations(older.operations, newer.operations, operations)
  compareOperations(older.calls, newer.calls, { ...operations, direction: 'answer' })
  return found
}

/** @param how direction of the operation's request: `answer` for a call that Latchkey makes */
function compareOperations(
  older: PlainDocument['operations'],
  newer: PlainDocument['operations'],
  how: Comparison,
): void {
  for (const [name, before] of Object.entries(older)) {
    const after = newer[name]
    if (after === undefined) how.report({ at: name, change: 'operation removed', breaking: true })
    else compareOperation(before, after, name, how)
  }
  for (const name of Object.keys(newer))
    if (older[name] === undefined) how.report({ at: name, change: 'operation added', breaking: false })
}

function compareOperation(before: PlainOperation, after: PlainOperation, at: string, how: Comparison): void {
  const { report } = how
  if (before.id !== after.id)
    report({ at, change: `operationId ${before.id} became ${after.id}`, breaking: true })
  if (before.deprecated !== after.deprecated)
    report({ at, change: after.deprecated ? 'deprecated' : 'no longer deprecated', breaking: false })
  if (before.security.join() !== after.security.join()) {
    const isOpened = after.security.length === 0
    report({
      at,
      change: `security ${before.security.join() || 'none'} became ${after.security.join() || 'none'}`,
      breaking: !isOpened,
    })
  }
  // Compares parameters like fields of a closed object, because the API refuses an unknown query parameter, too.
  compareSchemas(before.parameters, after.parameters, `${at} parameter`, how)
  compareBodies(before.body, after.body, `${at} body`, how)
  const opposite: Direction = how.direction === 'request' ? 'answer' : 'request'
  compareAnswers(before.answers, after.answers, at, { ...how, direction: opposite })
}

function compareBodies(before: Schemas, after: Schemas, at: string, how: Comparison): void {
  const isRequest = how.direction === 'request'
  for (const [type, schema] of Object.entries(before)) {
    const next = after[type]
    if (next === undefined) how.report({ at, change: `${type} removed`, breaking: true })
    else compareSchemas(schema, next, at, how)
  }
  for (const type of Object.keys(after))
    if (before[type] === undefined)
      how.report({ at, change: `${type} added`, breaking: isRequest && Object.keys(before).length === 0 })
}

function compareAnswers(
  before: PlainOperation['answers'],
  after: PlainOperation['answers'],
  operation: string,
  how: Comparison,
): void {
  for (const [status, answer] of Object.entries(before)) {
    const at = `${operation} answer ${status}`
    const next = after[status]
    if (next === undefined) {
      how.report({ at, change: 'status removed', breaking: !isFailure(status) })
      continue
    }
    for (const header of answer.headers)
      if (!next.headers.includes(header))
        how.report({ at, change: `header ${header} removed`, breaking: true })
    for (const header of next.headers)
      if (!answer.headers.includes(header))
        how.report({ at, change: `header ${header} added`, breaking: false })
    compareBodies(answer.content, next.content, at, how)
  }
  for (const status of Object.keys(after))
    if (before[status] === undefined)
      // Tolerates a new failure status, which a caller must treat like its class (RFC 9110, section 15).
      how.report({
        at: `${operation} answer ${status}`,
        change: 'status added',
        breaking: how.direction === 'answer' && !isFailure(status),
      })
}

function isFailure(status: string): boolean {
  return /^[45]/.test(status)
}

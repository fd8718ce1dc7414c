import { eventFilterOptions } from '#internal/backoffice/index.ts'
import { defaultLimits, internalDocument, publicContract } from '#internal/openapi/index.ts'

type Json = Readonly<Record<string, unknown>>

interface Operation {
  readonly operationId: string
  readonly parameters: readonly { readonly name: string; readonly in: string; readonly schema: Json }[]
  readonly requestBody?: { readonly content: { readonly 'application/json': { readonly schema: Json } } }
  readonly responses: Readonly<
    Record<string, { readonly content: Readonly<Record<string, { schema: Json }>> }>
  >
}

interface Document {
  readonly openapi: string
  readonly info: Json
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>
  readonly components: { readonly schemas: Readonly<Record<string, Json>>; readonly parameters: Json }
}

/**
 * Returns the part of both OpenAPI documents that `latchkey` needs: of each operation its method, path, answer schema, and parameters and
 * body fields with a set of values; and the schemas to which answers refer. Called as a macro: Bun runs it when it compiles the program,
 * which then contains the result.
 */
export function contracts() {
  const both = documents()
  return { public: contractOf(both.public), internal: contractOf(both.internal) }
}

/** Returns the options of event filters. Called as a macro, because their definitions would load the modules of the stores. */
export function filterOptions() {
  return eventFilterOptions()
}

function documents(): { readonly public: Document; readonly internal: Document } {
  const both = { public: publicContract(defaultLimits()), internal: internalDocument() }
  return JSON.parse(JSON.stringify(both)) as ReturnType<typeof documents>
}

function contractOf({ paths, components: { schemas } }: Document) {
  const operations = Object.entries(paths).flatMap(([path, byMethod]) =>
    Object.entries(byMethod).map(([method, operation]) => {
      const call = {
        method: method.toUpperCase(),
        path,
        answer: outline(answerOf(operation)[1].content['application/json']?.schema ?? {}) as object,
        choices: choicesOf(operation, schemas),
      }
      return [operation.operationId, call] as const
    }),
  )
  return { operations: Object.fromEntries(operations), schemas: outline(schemas) as object }
}

function answerOf({ responses }: Operation) {
  return Object.entries(responses).find(([status]) => status < '300') ?? (['', { content: {} }] as const)
}

function choicesOf({ parameters = [], requestBody }: Operation, schemas: Document['components']['schemas']) {
  const body = requestBody?.content['application/json']?.schema ?? {}
  const [, name = ''] = /([^/]+)$/.exec(String(body['$ref'])) ?? []
  const { properties = {} } = schemas[name] ?? body
  const fields: [string, Json | undefined][] = [
    ...parameters.map((each): [string, Json] => [each.name, each.schema]),
    ...Object.entries(properties as Readonly<Record<string, Json>>),
  ]
  const choices: Record<string, string[]> = {}
  for (const [field, schema] of fields)
    if (Array.isArray(schema?.['enum'])) choices[field] = schema['enum'] as string[]
  return choices
}

/** Returns the OpenAPI document of each API with only what the types of calls and answers need. */
export function typedDocuments(): Readonly<Record<string, object>> {
  const typed = Object.entries(documents()).map(([name, { openapi, info, paths, components }]) => {
    const outlined = Object.entries(paths).map(([path, operations]) => [
      path,
      Object.fromEntries(
        Object.entries(operations).map(([method, operation]) => [method, typedOperation(operation)]),
      ),
    ])
    const { schemas, parameters } = components
    return [
      name,
      { openapi, info, paths: Object.fromEntries(outlined), components: outline({ schemas, parameters }) },
    ]
  })
  return Object.fromEntries(typed)
}

function typedOperation(operation: Operation) {
  const { operationId, parameters, requestBody } = operation
  const [status, { content }] = answerOf(operation)
  // Accepts any value in a path: valid values can be newer than the program, and the service names them in its errors.
  const given = parameters?.map((each) =>
    each.in === 'path' ? { ...each, schema: { type: 'string' } } : each,
  )
  const responses = { [status]: { description: '', content } }
  return outline({ operationId, parameters: given, requestBody, responses })
}

/** Keywords that are needed neither to read an answer nor to type a request. */
const dropped = new Set(['description', 'example', 'examples', 'pattern', 'format', 'default', 'x-may-grow'])
const bounds = /^(min|max)(imum|Length|Items|Properties)$/

/** Returns a schema without texts and bounds. A set of values or variants that may grow becomes an open one. */
function outline(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(outline)
  if (typeof value !== 'object' || value === null) return value
  const grows = 'x-may-grow' in value
  const fields = Object.entries(value).filter(([name, inner]) => {
    if (grows && (name === 'enum' || name === 'oneOf')) return false
    // Keeps a property with the name of a keyword, whose value is a schema. Media types and parameters have no properties.
    const isKeyword = typeof inner !== 'object' || Array.isArray(inner) || 'schema' in value
    return !(isKeyword && (dropped.has(name) || bounds.test(name)))
  })
  const open = grows && 'oneOf' in value ? { type: 'object', additionalProperties: true } : {}
  return { ...Object.fromEntries(fields.map(([name, inner]) => [name, outline(inner)])), ...open }
}

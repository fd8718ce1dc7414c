import { expect } from 'bun:test'
import Ajv, { type ValidateFunction } from 'ajv/dist/2020'
import addFormats from 'ajv-formats'
import { publicContract } from '#internal/contracts/index.ts'
import type { Operation, Parameter, ParameterRef, ResponseObject } from '#internal/contracts/openapi.ts'
import type { TestAnswer } from './api.ts'

/** The public contract. */
export const contract = publicContract()

/** Every operation in it. */
export const operations = Object.entries(contract.paths).flatMap(([path, methods]) =>
  Object.entries(methods).map(([method, operation]) => ({ method: method.toUpperCase(), path, operation })),
)

/** The document as a schema in which an object has no other fields than those that are written down. */
const ajv = addFormats(new Ajv({ strict: false, allErrors: true }))
ajv.addSchema(closed(contract) as object, 'contract')

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, closed(inner)]))
  const isObject = fields['type'] === 'object' && fields['properties'] !== undefined
  return isObject ? { additionalProperties: false, ...fields } : fields
}

/** The schema at a place of the document, by the names that lead to it. */
export function schemaAt(...place: string[]): ValidateFunction {
  const pointer = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
  const schema = ajv.getSchema(`contract#/${pointer.join('/')}`)
  if (!schema) throw new Error(`the document has no ${place.join(' ')}`)
  return schema
}

/** Where a JSON body's schema stands below what has it. */
export const json = ['content', 'application/json', 'schema'] as const

/** The schema of an operation's answer. */
export function answerSchema(method: string, path: string, status: number | string): ValidateFunction {
  return schemaAt('paths', path, method.toLowerCase(), 'responses', String(status), ...json)
}

/** Fails the test with what the schema has against the value. */
export function expectFits(schema: ValidateFunction, value: unknown): void {
  schema(value)
  expect(schema.errors ?? []).toEqual([])
}

/** Of every HTTP answer; what an answer bears beyond them must be in the document. */
const transportHeaders = [
  'content-type',
  'content-length',
  'date',
  'cache-control',
  'connection',
  'keep-alive',
]

/** Fails the test unless the document has this answer: its status, its body, its headers and no other. */
export function expectDocumented(
  method: string,
  path: string,
  answer: Pick<TestAnswer, 'status' | 'headers' | 'json'>,
): void {
  const operation = contract.paths[path]?.[method.toLowerCase()]
  const documented = operation?.responses[String(answer.status)]
  if (!documented) throw new Error(`${method} ${path} answered ${answer.status}, which is not documented`)
  expectFits(answerSchema(method, path, answer.status), answer.json)
  const names = expectHeaders(documented, answer)
  const always = answer.status < 300 ? ['x-request-id'] : names
  for (const name of always) expect(answer.headers.has(name)).toBe(true)
}

/** Gives the names of the headers that are documented, of which an answer bears no other. */
export function expectHeaders(documented: ResponseObject, answer: Pick<TestAnswer, 'headers'>): string[] {
  const names = Object.keys(documented.headers ?? {}).map((name) => name.toLowerCase())
  for (const [name, value] of answer.headers) {
    if (!transportHeaders.includes(name)) expect(names).toContain(name)
    expect(value).not.toBe('')
  }
  return names
}

/** A parameter, looked up where it is a reference, with the place of its schema. */
export function resolveParameter(
  place: readonly string[],
  parameter: Parameter | ParameterRef,
): { readonly parameter: Parameter; readonly schema: ValidateFunction } {
  if (!('$ref' in parameter)) return { parameter, schema: schemaAt(...place, 'schema') }
  const name = parameter.$ref.slice('#/components/parameters/'.length)
  const found = contract.components.parameters[name]
  if (!found) throw new Error(`the document has no parameter ${name}`)
  return { parameter: found, schema: schemaAt('components', 'parameters', name, 'schema') }
}

/** Every parameter of an operation. */
export function parametersOf({ method, path, operation }: (typeof operations)[number]) {
  return (operation.parameters ?? []).map((parameter, index) =>
    resolveParameter(['paths', path, method.toLowerCase(), 'parameters', String(index)], parameter),
  )
}

type Fields = Readonly<Record<string, unknown>>

/** The parts of an example call, as they stand in an operation. */
export interface ExampleRequest {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly header: Readonly<Record<string, string>>
  readonly media?: string
  readonly body?: Fields
}

/** The example calls of an operation by name: what of it bears this name, put together. */
export function requestExamples(described: (typeof operations)[number]): Map<string, ExampleRequest> {
  const examples = new Map<string, ExampleRequest>()
  const at = (name: string) => examples.get(name) ?? { path: {}, query: {}, header: {} }
  for (const [media, { examples: bodies }] of bodiesOf(described.operation)) {
    for (const [name, { value }] of Object.entries(bodies)) {
      examples.set(name, { ...at(name), media, body: value as Fields })
    }
  }
  for (const { parameter } of parametersOf(described)) {
    for (const [name, { value }] of Object.entries(parameter.examples ?? {})) {
      const example = at(name)
      const part = { ...example[parameter.in], [parameter.name]: String(value) }
      examples.set(name, { ...example, [parameter.in]: part })
    }
  }
  return examples
}

/** The bodies that an operation takes, by media type. */
export function bodiesOf(operation: Pick<Operation, 'requestBody'>) {
  return Object.entries(operation.requestBody?.content ?? {})
}

/** A path of the document with its parameters filled in. */
export function fillPath(path: string, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(values[name] ?? ''))
}

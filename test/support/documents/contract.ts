import { expect } from 'bun:test'
import Ajv, { type ValidateFunction } from 'ajv/dist/2020'
import addFormats from 'ajv-formats'
import type { Parameter } from '#internal/http/index.ts'
import type { Operation, ParameterRef, Paths, ResponseObject } from '#internal/openapi/document.ts'
import { publicContract } from '#internal/openapi/index.ts'
import { type TestAnswer, testLimits } from '../api.ts'

/** OpenAPI document whose examples and answers are compared with a server. */
export interface ContractDocument {
  readonly paths: Paths
  readonly components: { readonly parameters: Readonly<Record<string, Parameter>> }
}

/** Operation with its method and path. */
export interface DescribedOperation {
  readonly method: string
  readonly path: string
  readonly operation: Operation
}

/** Compared parts of an answer. */
type Answered = Pick<TestAnswer, 'status' | 'headers' | 'json'>

/** Parameter with the schema of its value. */
export interface ResolvedParameter {
  readonly parameter: Parameter
  readonly schema: ValidateFunction
}

/** Parsed document, for comparison with responses. */
export interface OpenContract {
  readonly operations: readonly DescribedOperation[]
  /** Returns the schema at a path of the document. */
  schemaAt(...place: string[]): ValidateFunction
  /** Returns the schema of an operation's answer. */
  answerSchema(method: string, path: string, status: number | string): ValidateFunction
  /** Fails the test unless the document has this response: its status, its body, and exactly its headers. */
  expectDocumented(method: string, path: string, answer: Answered): void
  /** Resolved parameter with its schema. */
  resolveParameter(place: readonly string[], parameter: Parameter | ParameterRef): ResolvedParameter
  /** Returns all parameters of an operation. */
  parametersOf(described: DescribedOperation): ResolvedParameter[]
  /** Fails the test unless all examples of an operation's body and parameters match their schemas. */
  expectRequestExamplesFit(described: DescribedOperation): void
  /** Returns the example calls of an operation by name, assembled from all examples of that name. */
  requestExamples(described: DescribedOperation): Map<string, ExampleRequest>
}

/** Parses a document into schemas that allow no undocumented fields. */
export function openContract(document: ContractDocument): OpenContract {
  const ajv = addFormats(new Ajv({ strict: false, allErrors: true }))
  ajv.addSchema(closed(document) as object, 'contract')
  const schemaAt = (...place: string[]) => {
    const pointer = place.map((part) => encodeURIComponent(part.replaceAll('~', '~0').replaceAll('/', '~1')))
    const schema = ajv.getSchema(`contract#/${pointer.join('/')}`)
    if (!schema) throw new Error(`the document has no ${place.join(' ')}`)
    return schema
  }
  const answerOf = (method: string, path: string, status: number | string) =>
    schemaAt('paths', path, method.toLowerCase(), 'responses', String(status), ...json)
  const resolveParameter: OpenContract['resolveParameter'] = (place, parameter) => {
    if (!('$ref' in parameter)) return { parameter, schema: schemaAt(...place, 'schema') }
    const name = parameter.$ref.slice('#/components/parameters/'.length)
    const found = document.components.parameters[name]
    if (!found) throw new Error(`the document has no parameter ${name}`)
    return { parameter: found, schema: schemaAt('components', 'parameters', name, 'schema') }
  }
  const parametersOf = ({ method, path, operation: { parameters = [] } }: DescribedOperation) =>
    parameters.map((parameter, index) =>
      resolveParameter(['paths', path, method.toLowerCase(), 'parameters', String(index)], parameter),
    )
  return {
    operations: Object.entries(document.paths).flatMap(([path, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({
        method: method.toUpperCase(),
        path,
        operation,
      })),
    ),
    schemaAt,
    answerSchema: answerOf,
    resolveParameter,
    parametersOf,
    expectRequestExamplesFit(described) {
      const { method, path, operation } = described
      const place = ['paths', path, method.toLowerCase(), 'requestBody', 'content']
      for (const [media, { examples }] of bodiesOf(operation)) {
        const schema = schemaAt(...place, media, 'schema')
        for (const { value } of Object.values(examples)) expectFits(schema, value)
      }
      for (const { parameter, schema } of parametersOf(described))
        for (const { value } of Object.values(parameter.examples ?? {})) expectFits(schema, value)
    },
    expectDocumented(method, path, answer) {
      const documented = document.paths[path]?.[method.toLowerCase()]?.responses[String(answer.status)]
      if (!documented) throw new Error(`${method} ${path} answered ${answer.status}, which is not documented`)
      expectFits(answerOf(method, path, answer.status), answer.json)
      const names = expectHeaders(documented, answer)
      // If an answer has two forms, only the form with the error envelope must have a link.
      const hasLink = answer.json['code'] !== undefined
      const always =
        answer.status < 300 ? ['x-request-id'] : names.filter((name) => name !== 'link' || hasLink)
      for (const name of always) expect(answer.headers.has(name)).toBe(true)
    },
    requestExamples(described) {
      const examples = new Map<string, ExampleRequest>()
      const at = (name: string) => examples.get(name) ?? { path: {}, query: {}, header: {} }
      for (const [media, { examples: bodies }] of bodiesOf(described.operation))
        for (const [name, { value }] of Object.entries(bodies))
          examples.set(name, { ...at(name), media, body: value as Fields })
      for (const { parameter } of parametersOf(described)) {
        for (const [name, { value }] of Object.entries(parameter.examples ?? {})) {
          const example = at(name)
          const part = { ...example[parameter.in], [parameter.name]: String(value) }
          examples.set(name, { ...example, [parameter.in]: part })
        }
      }
      return examples
    },
  }
}

function closed(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(closed)
  if (typeof value !== 'object' || value === null) return value
  const fields = Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, closed(inner)]))
  const isObject = fields['type'] === 'object' && fields['properties'] !== undefined
  return isObject ? { additionalProperties: false, ...fields } : fields
}

/** Public contract of a test API whose options set no other limits. */
export const contract = publicContract(testLimits)

/** Comparison of answers with the public contract. */
export const {
  operations,
  schemaAt,
  answerSchema,
  expectDocumented,
  resolveParameter,
  parametersOf,
  expectRequestExamplesFit,
  requestExamples,
} = openContract(contract)

/** Path of a JSON body's schema below its response. */
export const json = ['content', 'application/json', 'schema'] as const

/** Fails the test with the schema errors of the value. */
export function expectFits(schema: ValidateFunction, value: unknown): void {
  schema(value)
  expect(schema.errors ?? []).toEqual([])
}

/** Headers of every HTTP answer; any other header must be in the document. */
const transportHeaders = [
  'content-type',
  'content-length',
  'date',
  'cache-control',
  'content-encoding',
  'vary',
  'connection',
  'keep-alive',
]

/** Returns the documented headers and checks that the response has no others. */
export function expectHeaders(documented: ResponseObject, answer: Pick<TestAnswer, 'headers'>): string[] {
  const names = Object.keys(documented.headers ?? {}).map((name) => name.toLowerCase())
  for (const [name, value] of answer.headers) {
    if (!transportHeaders.includes(name)) expect(names).toContain(name)
    expect(value).not.toBe('')
  }
  return names
}

type Fields = Readonly<Record<string, unknown>>

/** Collects the parts of an operation's example calls. */
export interface ExampleRequest {
  readonly path: Readonly<Record<string, string>>
  readonly query: Readonly<Record<string, string>>
  readonly header: Readonly<Record<string, string>>
  readonly media?: string
  readonly body?: Fields
}

/** Returns an operation's request bodies by media type. */
export function bodiesOf(operation: Pick<Operation, 'requestBody'>) {
  return Object.entries(operation.requestBody?.content ?? {})
}

/** Fills the parameters into a path of the document. */
export function fillPath(path: string, values: Readonly<Record<string, string>>): string {
  return path.replaceAll(/\{(\w+)\}/g, (_whole, name: string) => encodeURIComponent(values[name] ?? ''))
}

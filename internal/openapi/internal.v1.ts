import { type InternalRow, internalRows } from '#internal/backoffice/index.ts'
import type { ErrorCode } from '#internal/base/index.ts'
import { errorAnswers, errorSchemaOf } from './errors.ts'
import { internalExamples } from './internal-examples.ts'
import { type InternalOperation, internalOperations } from './internal-operations.ts'
import { internalSchemas } from './internal-schemas.ts'
import { toJsonSchema } from './json-schema.ts'
import {
  headerRefs,
  jsonAnswer,
  jsonBody,
  type Operation,
  type Parameter,
  type Paths,
  type ResponseObject,
  schemaRef,
} from './openapi.ts'

const everywhere: readonly ErrorCode[] = [
  'invalid_request',
  'unauthenticated',
  'forbidden',
  'api_key_scope',
  'tenant_suspended',
  'not_found',
  'internal',
  'unavailable',
  'body_dropped',
  'overloaded',
]

const errorTexts: Readonly<Record<string, string>> = {
  '401': 'No token, one that is not known, or one that is for others than `latchkey` too.',
  '403': 'This may not be done by whoever asks; or the API key is not for the dashboard.',
  '404': 'There is none, or it may not be seen: nobody is told which.',
  '409': 'Something else is there by now, or the tenant is in no state for it. Nothing was changed.',
  '429': 'Others have to end first.',
  '503':
    'The API server or a store does not answer now, or the key ring does not open the secrets that the call takes. Repeat the call as it was.',
}

const pathTexts: Readonly<Record<string, Pick<Parameter, 'description' | 'schema' | 'examples'>>> = {
  tenantId: idText('The tenant’s id.', 'ten_4f7w1r0hq5m9cn2b8kxv6t3dzs'),
  eventId: idText('The event’s id.', 'evt_06gw979vs1d9q6mddfvvx375s4'),
  replayId: idText('The replay’s id.', 'rpl_06gw979vs1d9q6mddfvvx375s4'),
  simulationId: idText('The simulation’s id.', 'sim_06gzx3byyxdccqxb8v47jbp37g'),
  emissionId: idText(
    'The other service’s own name for it: 1 to 128 printable characters.',
    'batch-2026-11-21-7',
  ),
  limit: idText('The name of a limit.', 'eventsPerMonth'),
  name: idText('The name of a setting.', 'forwarding.paused'),
}

const documentPath = '/internal/v1/openapi.json'

/** The internal contract as an OpenAPI 3.1 document: every route of `/internal/v1`, as the table of routes has it. */
export function internalContract() {
  const paths: Record<string, Record<string, Operation>> = {
    [documentPath]: {
      get: {
        operationId: 'readContract',
        summary: 'This document',
        tags: ['contract'],
        security: [],
        responses: { '200': jsonAnswer('OpenAPI 3.1.', { type: 'object' }, {}) },
      },
    },
  }
  for (const row of internalRows) {
    const path = row.path.replaceAll(/:(\w+)/g, '{$1}')
    const operation = internalOperations[`${row.method} ${path}`]
    if (operation === undefined) throw new Error(`nothing is said of ${row.method} ${path}`)
    paths[path] = { ...paths[path], [row.method.toLowerCase()]: describe(row, path, operation) }
  }
  return { ...head, paths: paths as Paths, components }
}

const head = {
  openapi: '3.1.1',
  info: {
    title: 'Latchkey, internal',
    version: '1.0.0',
    summary: 'What other services of the company, and the dashboard, do with tenants and events',
    description:
      'Every call asks for a token: of Kubernetes for the audience `latchkey` (`kubectl create token NAME --audience latchkey`), whose rights on Tenants decide, or a tenant’s API key of scope `dashboard` or `dashboard:read`, which sees that tenant alone. With `dashboard:read` it reads everything but payloads as they were received, and every write is 403; with `dashboard` it also reads payloads, replays, tests and resumes the callback, and with `simulations` beside it simulates. Rights of Kubernetes: `get tenants` to see, `get tenants/payloads`, `create tenants/replays`, `update tenants/settings`, `create tenants/simulations`, `create tenants/events`, `create tenants/usage`. Lists have an order that stays, the latest first unless they say otherwise, and pages by `after`. A write may be repeated as it was: it is done once, and a repeat bears `Idempotent-Replayed`. Two are not so: a test of a callback calls it each time (with an `Idempotency-Key` under the same `webhook-id`), and a replay of one event that names no `round` begins another round where the last one has ended meanwhile. Every write and every payload that is read is in the audit log.',
    license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
  },
  tags: [
    { name: 'tenants', description: 'Who there is, and how they stand.' },
    { name: 'events', description: 'What providers sent, and what became of it.' },
    { name: 'replays', description: 'Delivering many events once more.' },
    { name: 'usage', description: 'What was used, and the limits that it is held to.' },
    { name: 'settings', description: 'What is changed at run time.' },
    { name: 'simulations', description: 'Made-up events, to try callbacks with.' },
    { name: 'executions', description: 'The history of locks.' },
    { name: 'audit', description: 'Who did what.' },
    { name: 'contract', description: 'What this API promises.' },
  ],
} as const

const text = (description: string) => ({ description, schema: { type: 'string' } })

const components = {
  securitySchemes: {
    token: {
      type: 'http',
      scheme: 'bearer',
      description:
        'A token of Kubernetes for the audience `latchkey`, or a tenant’s API key of scope `dashboard` or `dashboard:read`.',
    },
  },
  headers: {
    'X-Request-Id': text("Name of this request in our logs: the caller's own, or one of ours."),
    'Idempotent-Replayed': text('`true` when nothing had to be done: it was done before.'),
    'Retry-After': text('Seconds to wait before asking again.'),
    'WWW-Authenticate': text('How to say who asks.'),
  },
  parameters: {},
  responses: {},
  schemas: {
    Error: errorSchemaOf([...everywhere, 'conflict', 'too_many', 'body_too_large']),
    ...internalSchemas,
  },
}

function describe(row: InternalRow, path: string, operation: InternalOperation): Operation {
  const { id, tag, summary, description, answer, errors = [], body } = operation
  const isWrite = row.method !== 'GET'
  return {
    ...{ operationId: id, summary, tags: [tag], security: [{ token: [] }] },
    ...(description !== undefined && { description }),
    parameters: parametersOf(row, path),
    ...(row.body !== undefined && {
      requestBody: jsonBody(toJsonSchema(row.body), { example: { value: body } }),
    }),
    responses: {
      '200': jsonAnswer(
        isWrite ? 'It is done, by this call or by one before it.' : 'What was asked for.',
        schemaRef(answer),
        { example: { value: internalExamples[answer] } },
        isWrite ? ['Idempotent-Replayed'] : [],
      ),
      ...answersOf([
        ...everywhere,
        ...errors,
        ...(row.body === undefined ? [] : (['body_too_large'] as const)),
      ]),
    },
  }
}

function parametersOf({ query = {}, idempotencyKey }: InternalRow, path: string): Parameter[] {
  const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name = '']): Parameter => {
    const { description = '', schema = {}, examples = {} } = pathTexts[name] ?? {}
    return { name, in: 'path', required: true, description, schema, examples }
  })
  const inQuery = Object.entries(query).map(
    ([name, { description, schema, isRequired = false }]): Parameter => ({
      ...{ name, in: 'query', required: isRequired, description, schema },
    }),
  )
  const header: Parameter = {
    ...{ name: 'Idempotency-Key', in: 'header', required: idempotencyKey === 'required' },
    description:
      'Your name for this call: a repeat under it is done once. The same one with another request is 409.',
    schema: { type: 'string', minLength: 1, maxLength: 200, pattern: '^[ -~]+$' },
    examples: { example: { value: 'nightly-2026-11-21' } },
  }
  return [...inPath, ...inQuery, ...(idempotencyKey === undefined ? [] : [header])]
}

function answersOf(codes: readonly ErrorCode[]): Readonly<Record<string, ResponseObject>> {
  return Object.fromEntries(
    Object.entries(errorAnswers(codes)).map(([status, answer]) => [
      status,
      {
        ...answer,
        description: errorTexts[status] ?? answer.description,
        ...(status === '429' && { headers: headerRefs(['X-Request-Id', 'Retry-After']) }),
      },
    ]),
  )
}

function idText(description: string, example: string) {
  return { description, schema: { type: 'string' }, examples: { example: { value: example } } }
}

import { expect, test } from 'bun:test'
import { compareDocuments, type OpenApi, plainDocument } from './openapi-diff.ts'

const text = { schema: { type: 'string' } }
const json = (...fields: readonly string[]) => ({
  'application/json': {
    schema: {
      type: 'object',
      required: fields,
      properties: Object.fromEntries(fields.map((each) => [each, {}])),
    },
  },
})
const query = (name: string, required = false) => ({ name, in: 'query', required, ...text })
const answers = {
  200: { headers: { 'X-Request-Id': text }, content: json('id') },
  400: { content: json('code') },
}
const operation = {
  operationId: 'read',
  security: [{ apiKey: [] }],
  parameters: [query('after')],
  responses: answers,
}
const call = {
  operationId: 'event',
  requestBody: { content: json('id', 'type') },
  responses: { '2XX': {}, 410: {} },
}

interface Documented {
  readonly read?: object
  readonly call?: object
  readonly paths?: object
}

function document({ read = {}, call: outbound = {}, paths = {} }: Documented = {}): OpenApi {
  return {
    paths: { '/v1/things': { get: { ...operation, ...read } }, ...paths },
    webhooks: { event: { post: { ...call, ...outbound } } },
    components: { schemas: {}, parameters: {} },
  }
}

const things = 'GET /v1/things'

test.each<[what: string, change: Documented, expected: readonly string[]]>([
  ['nothing changes', {}, []],
  ['an operation is added', { paths: { '/v1/more': { get: operation } } }, []],
  ['an operation is removed', { paths: { '/v1/things': {} } }, [`${things}: operation removed`]],
  ['an operation is deprecated', { read: { deprecated: true } }, []],
  ['an operation is renamed', { read: { operationId: 'list' } }, [`${things}: operationId read became list`]],
  ['an operation needs no key any more', { read: { security: [] } }, []],
  [
    'an operation needs another key',
    { read: { security: [{ token: [] }] } },
    [`${things}: security apiKey became token`],
  ],
  ['an optional parameter is added', { read: { parameters: [query('after'), query('limit')] } }, []],
  [
    'a required parameter is added',
    { read: { parameters: [query('after'), query('limit', true)] } },
    [`${things} parameter.query limit: added, required`],
  ],
  ['a parameter is removed', { read: { parameters: [] } }, [`${things} parameter.query after: removed`]],
  [
    'a parameter becomes required',
    { read: { parameters: [query('after', true)] } },
    [`${things} parameter.query after: became required`],
  ],
  [
    'a body is added',
    { read: { requestBody: { content: json('id') } } },
    [`${things} body: application/json added`],
  ],
  ['a status of failure is added', { read: { responses: { ...answers, 429: {} } } }, []],
  ['a status of failure is removed', { read: { responses: { 200: answers[200] } } }, []],
  [
    'a status of success is added',
    { read: { responses: { ...answers, 202: {} } } },
    [`${things} answer 202: status added`],
  ],
  [
    'a status of success becomes another',
    { read: { responses: { 202: answers[200], 400: answers[400] } } },
    [`${things} answer 200: status removed`, `${things} answer 202: status added`],
  ],
  [
    'an answer gets a field',
    { read: { responses: { ...answers, 200: { ...answers[200], content: json('id', 'at') } } } },
    [],
  ],
  [
    'an answer loses a field',
    { read: { responses: { ...answers, 400: { content: json() } } } },
    [`${things} answer 400.code: removed`],
  ],
  [
    'an answer loses a header',
    { read: { responses: { ...answers, 200: { content: json('id') } } } },
    [`${things} answer 200: header X-Request-Id removed`],
  ],
  [
    'a call to the callback gets a field',
    { call: { requestBody: { content: json('id', 'type', 'origin') } } },
    [],
  ],
  [
    'a call to the callback loses a field',
    { call: { requestBody: { content: json('id') } } },
    ['POST event body.type: removed'],
  ],
  ['a call to the callback gets a header', { call: { parameters: [query('trace')] } }, []],
  [
    'the callback may answer with another status',
    { call: { responses: { '2XX': {}, 410: {}, 429: {} } } },
    [],
  ],
])('document comparison: where %s, the breaking differences are reported', (_what, change, expected) => {
  const found = compareDocuments(plainDocument(document()), plainDocument(document(change)))
  const breaking = found
    .filter((difference) => difference.breaking)
    .map(({ at, change }) => `${at}: ${change}`)
  expect(breaking).toEqual([...expected])
})

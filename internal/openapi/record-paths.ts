import type { ErrorCode } from '#internal/base/index.ts'
import { FetchQuery, RemoveQuery } from '#internal/records/index.ts'
import { errorAnswers } from './errors.ts'
import { type JsonSchema, toJsonSchema } from './json-schema.ts'
import {
  type Examples,
  jsonAnswer,
  jsonBody,
  type Operation,
  type Parameter,
  type Paths,
  schemaRef,
} from './openapi.ts'

const everywhere: readonly ErrorCode[] = [
  'invalid_request',
  'api_key_invalid',
  'api_key_scope',
  'tenant_suspended',
  'internal',
  'store_unavailable',
  'starting',
  'body_dropped',
  'overloaded',
]

const shared = { tags: ['records'], security: [{ apiKey: [] }] }
const address = { scope: 'payments', key: 'order-1042' }
const record = { status: 201, headers: { Location: '/charges/ch_81' }, body: { id: 'ch_81', amount: 4200 } }
const lockToken = 'cZ3Vb9yT0kq2mXw1'

const check: Operation = {
  ...shared,
  operationId: 'checkRecord',
  summary: 'Get the saved response, or take the lock',
  description:
    'Answers the saved response of this scope and key. Where there is none, the caller takes the lock, runs its handler, and saves the response with PUT; or another caller holds the lock, and this one asks again after `retryAfterMs`. A tenant may have 2 000 calls under way in a process, and 16 MiB of records of over 32 KiB on their way; one call more is 503 `overloaded`.',
  requestBody: jsonBody(schemaRef('CheckRequest'), {
    lock: {
      summary: 'A first call',
      value: { ...address, ttlSeconds: 86_400, lockSeconds: 30, attemptId: 'a-1' },
    },
    busy: { summary: 'A second call meanwhile', value: { ...address, waitMs: 50 } },
    hit: { summary: 'A call after the save', value: address },
  }),
  responses: {
    '200': jsonAnswer(
      'The saved response, the lock, or that somebody else holds it.',
      schemaRef('CheckAnswer'),
      {
        lock: {
          value: {
            cached: false,
            locked: true,
            lockToken,
            fence: 1_795_258_166_892_693,
            expiresInMs: 30_000,
          },
        },
        busy: { value: { cached: false, locked: false, retryAfterMs: 1000 } },
        hit: { value: { cached: true, record } },
      },
      ['Idempotent-Replayed', 'Retry-After'],
    ),
    ...errorAnswers([...everywhere, 'fingerprint_mismatch', 'limit_exceeded']),
  },
}

const save: Operation = {
  ...shared,
  operationId: 'saveRecord',
  summary: 'Save the response',
  description:
    'The first completed record wins. The same call again is 200, so it may be repeated after a lost reply. `body` is kept as received text.',
  requestBody: jsonBody(schemaRef('SaveRequest'), {
    save: { summary: 'By the holder of the lock', value: { ...address, ...record, lockToken } },
  }),
  responses: {
    '200': jsonAnswer('The record is saved.', schemaRef('SaveAnswer'), { save: { value: { ok: true } } }),
    ...errorAnswers([...everywhere, 'lock_lost', 'record_exists']),
  },
}

const fetch: Operation = {
  ...shared,
  operationId: 'fetchRecord',
  summary: 'Read the saved response',
  parameters: queryParameters(toJsonSchema(FetchQuery), {
    found: address,
    none: { ...address, key: 'order-1043' },
  }),
  responses: {
    '200': jsonAnswer(
      'The record, or that there is none. A lock is no record.',
      schemaRef('FetchAnswer'),
      { found: { value: { cached: true, record } }, none: { value: { cached: false } } },
      ['Idempotent-Replayed'],
    ),
    ...errorAnswers(everywhere),
  },
}

const remove: Operation = {
  ...shared,
  operationId: 'removeRecord',
  summary: 'Remove the record, or release a lock',
  description:
    'Without `lockToken` removes the record and leaves a lock alone. With it releases that lock and leaves everything else alone: `existed` then tells whether this lock was there and is released, and `false` that it had been released, taken over or completed before.',
  parameters: queryParameters(toJsonSchema(RemoveQuery), {
    removed: address,
    released: { ...address, key: 'order-1044', lockToken },
  }),
  responses: {
    '200': jsonAnswer('Whether it was there.', schemaRef('RemoveAnswer'), {
      removed: { value: { ok: true, existed: true } },
      released: { value: { ok: true, existed: true } },
    }),
    ...errorAnswers(everywhere),
  },
}

const extend: Operation = {
  ...shared,
  operationId: 'extendLock',
  summary: 'Hold a lock for longer',
  description:
    'The lock lives for `lockSeconds` from now, or as long as it was first taken for. A lock whose time is over can be extended while nobody took it over.',
  requestBody: jsonBody(schemaRef('ExtendRequest'), {
    extended: { value: { ...address, key: 'order-1044', lockToken, lockSeconds: 120 } },
  }),
  responses: {
    '200': jsonAnswer('The lock is held.', schemaRef('ExtendAnswer'), {
      extended: { value: { ok: true, fence: 1_795_258_166_892_694, expiresInMs: 120_000 } },
    }),
    ...errorAnswers([...everywhere, 'lock_lost']),
  },
}

const batch: Operation = {
  ...shared,
  operationId: 'checkRecords',
  summary: 'Check up to 100 keys in one call',
  description:
    'Each check is answered on its own, in order. The records of one answer have 4 MiB together at most: of those over 32 KiB, one that no longer fits has the error `overloaded` in its place, and its key is to be asked for alone. Checks without an answer of the store within 900 ms have `store_unavailable`.',
  requestBody: jsonBody(schemaRef('BatchRequest'), {
    batch: {
      value: {
        checks: [
          { ...address, key: 'order-1044' },
          { scope: 'payments', key: 'order-1045' },
        ],
      },
    },
  }),
  responses: {
    '200': jsonAnswer(
      'One result for each check, in order. `Retry-After` is the soonest of `retryAfterMs`.',
      schemaRef('BatchAnswer'),
      {
        batch: {
          value: {
            results: [
              { cached: false, locked: true, lockToken, fence: 1_795_258_166_892_694, expiresInMs: 60_000 },
              { cached: false, locked: false, retryAfterMs: 1000 },
            ],
          },
        },
      },
      ['Retry-After'],
    ),
    ...errorAnswers(everywhere),
  },
}

/** The record routes of the public contract. */
export const recordPaths: Paths = {
  '/v1/record': { post: check, put: save, get: fetch, delete: remove },
  '/v1/record/extend': { post: extend },
  '/v1/record/batch': { post: batch },
}

/** One parameter for each property of a query's schema, with the examples' values for it. */
function queryParameters(
  schema: JsonSchema,
  examples: Readonly<Record<string, Readonly<Record<string, string>>>>,
): Parameter[] {
  const required = schema.required as readonly string[]
  return Object.entries(schema.properties as Record<string, JsonSchema>).map(([name, property]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    description: String(property.description),
    schema: property,
    examples: Object.fromEntries(
      Object.entries(examples).flatMap(([example, values]): [string, Examples[string]][] =>
        values[name] === undefined ? [] : [[example, { value: values[name] }]],
      ),
    ),
  }))
}

import {
  BatchCheck,
  batchChecksMax,
  CheckRequest,
  ExtendRequest,
  SaveRequest,
} from '#internal/records/index.ts'
import { errorSchema } from './errors.ts'
import { type JsonSchema, toJsonSchema } from './json-schema.ts'
import { schemaRef } from './openapi.ts'

const cached = (value: boolean, description: string) => ({ type: 'boolean', const: value, description })

const savedRecord: JsonSchema = {
  type: 'object',
  required: ['status', 'headers', 'body'],
  properties: {
    status: { type: 'integer', minimum: 100, maximum: 599 },
    headers: { type: 'object', additionalProperties: { type: 'string' } },
    body: { description: 'The saved JSON value, as it was received.' },
  },
}

const hit: JsonSchema = {
  title: 'Hit',
  type: 'object',
  required: ['cached', 'record'],
  properties: { cached: cached(true, 'A saved record exists.'), record: schemaRef('SavedRecord') },
}

const locked: JsonSchema = {
  title: 'Locked',
  type: 'object',
  required: ['cached', 'locked', 'lockToken', 'fence', 'expiresInMs'],
  properties: {
    cached: cached(false, 'There is no record.'),
    locked: cached(true, 'The caller holds the lock now.'),
    lockToken: { type: 'string', description: 'Send it with PUT, extend and DELETE. Opaque.' },
    fence: { type: 'integer', description: 'Fencing token: grows with every acquisition of the tenant.' },
    expiresInMs: { type: 'integer', description: 'Milliseconds the lock is held for.' },
    takenOver: {
      type: 'boolean',
      const: true,
      description:
        'An earlier holder let its time run out and saved nothing: its work may have been done. Announced for 24 hours after the end of that lock, and for its `ttlSeconds` where that is longer, at most 7 days.',
    },
  },
}

const busy: JsonSchema = {
  title: 'Busy',
  type: 'object',
  required: ['cached', 'locked', 'retryAfterMs'],
  properties: {
    cached: cached(false, 'There is no record.'),
    locked: cached(false, 'Another caller holds the lock.'),
    retryAfterMs: { type: 'integer', minimum: 1, description: 'Milliseconds to wait before asking again.' },
  },
}

/** The schemas of the record routes, by the names they bear in the document. */
export const recordSchemas: Readonly<Record<string, JsonSchema>> = {
  CheckRequest: toJsonSchema(CheckRequest),
  BatchCheck: toJsonSchema(BatchCheck),
  BatchRequest: {
    type: 'object',
    additionalProperties: false,
    required: ['checks'],
    properties: {
      checks: {
        type: 'array',
        minItems: 1,
        maxItems: batchChecksMax,
        items: schemaRef('BatchCheck'),
        description: 'Each is answered on its own: one that is not valid gets an error in its place.',
      },
    },
  },
  SaveRequest: toJsonSchema(SaveRequest),
  ExtendRequest: toJsonSchema(ExtendRequest),
  SavedRecord: savedRecord,
  CheckAnswer: { oneOf: [hit, locked, busy] },
  FetchAnswer: {
    oneOf: [
      hit,
      {
        title: 'None',
        type: 'object',
        required: ['cached'],
        properties: { cached: cached(false, 'There is no record.') },
      },
    ],
  },
  BatchAnswer: {
    type: 'object',
    required: ['results'],
    properties: {
      results: {
        type: 'array',
        items: { anyOf: [schemaRef('CheckAnswer'), schemaRef('BatchError')] },
        description: 'One result for each check, in order.',
      },
    },
  },
  BatchError: {
    ...errorSchema,
    description: 'What the check by itself would have been refused with.',
    properties: {
      ...errorSchema.properties,
      retryAfterMs: {
        type: 'integer',
        minimum: 1,
        description: 'With 429 and 503: milliseconds to wait before asking for this key again.',
      },
    },
  },
  SaveAnswer: { type: 'object', required: ['ok'], properties: { ok: { type: 'boolean', const: true } } },
  RemoveAnswer: {
    type: 'object',
    required: ['ok', 'existed'],
    properties: {
      ok: { type: 'boolean', const: true },
      existed: {
        type: 'boolean',
        description:
          'Whether a record was there and is removed; with `lockToken`, whether this lock was there and is released.',
      },
    },
  },
  ExtendAnswer: {
    type: 'object',
    required: ['ok', 'fence', 'expiresInMs'],
    properties: {
      ok: { type: 'boolean', const: true },
      fence: { type: 'integer' },
      expiresInMs: { type: 'integer', description: 'Milliseconds the lock is held for from now on.' },
    },
  },
}

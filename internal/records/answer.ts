import { type ApiError, apiError } from '#internal/base/index.ts'
import { type Answer, errorSchemaOf, type JsonSchema, named, publicErrorCodes } from '#internal/http/index.ts'
import { RedisUnavailable } from '#internal/storage/index.ts'
import type { Acquired } from './acquire.ts'
import { type CheckOutcome, suggestRetryMs } from './record.ts'
import { RecordsUnavailable } from './store.ts'

const replayed = { 'Idempotent-Replayed': 'true' }

export function acquiredText(acquired: Acquired): string {
  switch (acquired.kind) {
    case 'hit':
      return hitText(acquired.record)
    case 'locked':
      // The lock token is base64url and all other values are numbers, so nothing needs escaping.
      return `{"cached":false,"locked":true,"lockToken":"${acquired.lockToken}","fence":${acquired.fence},"expiresInMs":${acquired.expiresInMs}${acquired.takenOver ? ',"takenOver":true' : ''}}`
    case 'busy':
      return `{"cached":false,"locked":false,"retryAfterMs":${suggestRetryMs(acquired.remainingMs)}}`
    default:
      return acquired satisfies never
  }
}

export function hitText(record: string): string {
  return `{"cached":true,"record":${record}}`
}

export function outcomeOf(acquired: Acquired | ApiError): CheckOutcome {
  switch (acquired.kind) {
    case 'error':
      return acquired.code
    case 'locked':
      return acquired.takenOver ? 'taken_over' : 'locked'
    default:
      return acquired.kind
  }
}

export function acquiredAnswer(acquired: Acquired): Answer {
  const body = acquiredText(acquired)
  const outcome = outcomeOf(acquired)
  switch (acquired.kind) {
    case 'hit':
      return { kind: 'answer', status: 200, body, headers: replayed, outcome }
    case 'locked':
      return { kind: 'answer', status: 200, body, outcome }
    case 'busy': {
      const seconds = Math.ceil(suggestRetryMs(acquired.remainingMs) / 1000)
      return { kind: 'answer', status: 200, body, headers: { 'Retry-After': String(seconds) }, outcome }
    }
    default:
      return acquired satisfies never
  }
}

export function hitAnswer(record: string): Answer {
  return { kind: 'answer', status: 200, body: hitText(record), headers: replayed, outcome: 'hit' }
}

export function plainAnswer(outcome: string, value: object): Answer {
  return { kind: 'answer', status: 200, body: JSON.stringify(value), outcome }
}

/** Returns a 503 error for an unavailable or overloaded store, or undefined for any other exception, which is a bug. */
export function explainStoreError(error: unknown): ApiError | undefined {
  if (!(error instanceof RedisUnavailable || error instanceof RecordsUnavailable)) return undefined
  const headers = { 'Retry-After': '1' }
  return apiError(error.reason === 'overloaded' ? 'overloaded' : 'store_unavailable', undefined, headers)
}

const cached = (value: boolean, description: string) => ({ type: 'boolean', const: value, description })
const ok = { type: 'boolean', const: true }

const hit: JsonSchema = named('RecordFound', {
  type: 'object',
  required: ['cached', 'record'],
  properties: {
    cached: cached(true, 'A saved record exists.'),
    record: named('SavedRecord', {
      type: 'object',
      required: ['status', 'headers', 'body'],
      properties: {
        status: { type: 'integer', minimum: 100, maximum: 599 },
        headers: { type: 'object', additionalProperties: { type: 'string' } },
        body: { description: 'The saved JSON value, as received.' },
      },
    }),
  },
})

const locked: JsonSchema = named('LockTaken', {
  type: 'object',
  required: ['cached', 'locked', 'lockToken', 'fence', 'expiresInMs'],
  properties: {
    cached: cached(false, 'There is no record.'),
    locked: cached(true, 'The caller holds the lock now.'),
    lockToken: { type: 'string', description: 'Send it with PUT, extend and DELETE. Opaque.' },
    fence: { type: 'integer', description: 'Fencing token: grows with every acquisition of the tenant.' },
    expiresInMs: { type: 'integer', description: 'Milliseconds the lock is held.' },
    takenOver: {
      type: 'boolean',
      const: true,
      description:
        'An earlier holder let its lock expire without saving: its work may have been done. Reported for 24 hours after the end of that lock, or for its `ttlSeconds` where that is longer, at most 7 days.',
    },
  },
})

const busy: JsonSchema = named('LockBusy', {
  type: 'object',
  required: ['cached', 'locked', 'retryAfterMs'],
  properties: {
    cached: cached(false, 'There is no record.'),
    locked: cached(false, 'Another caller holds the lock.'),
    retryAfterMs: { type: 'integer', minimum: 1, description: 'Milliseconds to wait before the next check.' },
  },
})

const none: JsonSchema = named('RecordMissing', {
  type: 'object',
  required: ['cached'],
  properties: { cached: cached(false, 'There is no record.') },
})

export const CheckAnswer = named('CheckAnswer', { oneOf: [hit, locked, busy] })
export const FetchAnswer = named('FetchAnswer', { oneOf: [hit, none] })
export const SaveAnswer = named('SaveAnswer', { type: 'object', required: ['ok'], properties: { ok } })
export const RemoveAnswer = named('RemoveAnswer', {
  type: 'object',
  required: ['ok', 'existed'],
  properties: {
    ok,
    existed: {
      type: 'boolean',
      description:
        'Whether a record existed and is removed; with `lockToken`, whether this lock existed and is released.',
    },
  },
})
export const ExtendAnswer = named('ExtendAnswer', {
  type: 'object',
  required: ['ok', 'fence', 'expiresInMs'],
  properties: {
    ok,
    fence: { type: 'integer' },
    expiresInMs: { type: 'integer', description: 'Milliseconds the lock is held from now on.' },
  },
})

const errorSchema = errorSchemaOf(publicErrorCodes)
export const BatchAnswer = named('BatchAnswer', {
  type: 'object',
  required: ['results'],
  properties: {
    results: {
      type: 'array',
      items: {
        anyOf: [
          CheckAnswer,
          named('BatchError', {
            ...errorSchema,
            description: 'Error that the check would have been answered with on its own.',
            properties: {
              ...errorSchema.properties,
              retryAfterMs: {
                type: 'integer',
                minimum: 1,
                description: 'With 429 and 503: milliseconds to wait before the next check of this key.',
              },
            },
          }),
        ],
      },
      description: 'One result for each check, in order.',
    },
  },
})

import type { Principal } from '#internal/access/index.ts'
import {
  type ApiError,
  apiError,
  type ErrorCode,
  findElements,
  findMembers,
  hasRepeatedMember,
} from '#internal/base/index.ts'
import {
  type Answer,
  createParser,
  type Parsed,
  type ParsedCall,
  quoteName,
  repeatedField,
  route,
} from '#internal/http/index.ts'
import { acquireRecord, noRoom, type Records, toAcquired } from './acquire.ts'
import {
  acquiredAnswer,
  BatchAnswer,
  CheckAnswer,
  ExtendAnswer,
  explainStoreError,
  FetchAnswer,
  hitAnswer,
  outcomeOf,
  plainAnswer,
  RemoveAnswer,
  SaveAnswer,
} from './answer.ts'
import { batchMsMax, batchRecordBytesMax, checkBatch } from './batch.ts'
import {
  BatchCheck,
  BatchRequest,
  CheckRequest,
  ExtendRequest,
  FetchQuery,
  findBadHeaderName,
  headerNameExpected,
  RemoveQuery,
  SaveRequest,
} from './requests.ts'
import { saveRecord } from './save.ts'
import { longRecordBytes } from './scripts.ts'

/** Maximum bytes of a request beyond the saved body. */
const slackBytes = 64 * 1024
const batchBytesMax = 1024 * 1024

const shared = { scope: 'records', path: '/v1/record' } as const
const bodyBytesMax = (records: Records) => records.bodyBytesMax + slackBytes

const tag = 'records'
const errors: readonly ErrorCode[] = [
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
const address = { scope: 'payments', key: 'order-1042' }
const record = { status: 201, headers: { Location: '/charges/ch_81' }, body: { id: 'ch_81', amount: 4200 } }
const lockToken = 'cZ3Vb9yT0kq2mXw1'

const checkRoute = route({
  ...shared,
  method: 'POST',
  body: CheckRequest,
  bodyBytesMax,
  operation: {
    id: 'checkRecord',
    tag,
    summary: 'Get the saved response, or take the lock',
    description:
      'Returns the saved response of this scope and key. Without one, the caller takes the lock, runs its handler and saves the response with PUT; or, while another caller holds the lock, it repeats the call after `retryAfterMs`. A process serves 2 000 calls of a tenant at a time (500 if its records are in Postgres) and 16 MiB of its records over 32 KiB; a call beyond is 503 `overloaded`.',
    examples: {
      lock: {
        summary: 'A first call',
        value: { ...address, ttlSeconds: 86_400, lockSeconds: 30, attemptId: 'a-1' },
      },
      busy: { summary: 'A second call meanwhile', value: { ...address, waitMs: 50 } },
      hit: { summary: 'A call after the save', value: address },
    },
    answers: {
      200: {
        description: 'The saved response, the lock, or that another caller holds it.',
        schema: CheckAnswer,
        headers: ['Idempotent-Replayed', 'Retry-After'],
        examples: {
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
      },
    },
    errors: [...errors, 'fingerprint_mismatch', 'limit_exceeded'],
  },
  onInvalid: ({ code }, records: Records) => records.onChecked(code),
  handle: check,
})

async function check(
  { call, body }: ParsedCall<typeof CheckRequest>,
  { tenant }: Principal,
  records: Records,
): Promise<Answer | ApiError> {
  try {
    // Reads the signal only for a call that waits: reading it costs time, and other calls end before a caller hangs up.
    const signal = body.waitMs ? anyOf(call.request.signal, records.ending) : undefined
    const acquired = toAcquired(records, await acquireRecord(records, tenant, body, signal), tenant)
    records.onChecked(outcomeOf(acquired))
    return acquired.kind === 'error' ? acquired : acquiredAnswer(acquired)
  } catch (error) {
    records.onChecked(explainStoreError(error)?.code ?? 'internal')
    throw error
  }
}

function anyOf(hungUp: AbortSignal, ending: AbortSignal | undefined): AbortSignal {
  return ending ? AbortSignal.any([hungUp, ending]) : hungUp
}

const saveRoute = route({
  ...shared,
  method: 'PUT',
  body: SaveRequest,
  bodyBytesMax,
  operation: {
    id: 'saveRecord',
    tag,
    summary: 'Save the response',
    description:
      'The first saved record wins. Repeating the same call is 200, so that it is safe after a lost reply. `body` is kept as received text.',
    examples: { save: { summary: 'By the holder of the lock', value: { ...address, ...record, lockToken } } },
    answers: {
      200: {
        description: 'The record is saved.',
        schema: SaveAnswer,
        examples: { save: { value: { ok: true } } },
      },
    },
    errors: [...errors, 'lock_lost', 'record_exists'],
  },
  async handle({ body, text }, { tenant }: Principal, records: Records) {
    const received = {
      headers: receivedField(text, 'headers') ?? '{}',
      body: receivedField(text, 'body') ?? 'null',
    }
    const badName = findBadHeaderName(body.headers ?? {})
    if (badName !== undefined) {
      const problem = `"headers": the name ${quoteName(badName)} must be ${headerNameExpected}`
      return apiError('invalid_request', problem)
    }
    // Refuses repeated names: headers are saved as received, and JSON parsers disagree on repeated names.
    if (findMembers(received.headers).kind === 'repeated') return repeatedField(received.headers, '"headers"')
    const saved = await saveRecord(records, tenant, body, received)
    return saved.kind === 'error' ? saved : plainAnswer('saved', { ok: true })
  },
})

const fetchRoute = route({
  ...shared,
  method: 'GET',
  query: FetchQuery,
  operation: {
    id: 'fetchRecord',
    tag,
    summary: 'Read the saved response',
    description:
      'Takes no lock and changes nothing. A key that has only a lock is answered like an unused key.',
    examples: { found: { value: address }, none: { value: { ...address, key: 'order-1043' } } },
    answers: {
      200: {
        description: 'The record, or that there is none. A lock is no record.',
        schema: FetchAnswer,
        headers: ['Idempotent-Replayed'],
        examples: { found: { value: { cached: true, record } }, none: { value: { cached: false } } },
      },
    },
    errors,
  },
  async handle({ query }, { tenant }: Principal, records: Records) {
    const found = await records.storeOf(tenant).fetch({ tenantId: tenant.id, ...query })
    if (found.kind === 'long') return noRoom()
    return found.kind === 'hit' ? hitAnswer(found.record) : plainAnswer('none', { cached: false })
  },
})

const removeRoute = route({
  ...shared,
  method: 'DELETE',
  query: RemoveQuery,
  operation: {
    id: 'removeRecord',
    tag,
    summary: 'Remove the record, or release a lock',
    description:
      'Without `lockToken` removes the record and keeps a lock. With it releases that lock and keeps everything else: `existed` is true if this lock existed and is released; `false` means that it had been released, taken over or completed before.',
    examples: {
      removed: { value: address },
      released: { value: { ...address, key: 'order-1044', lockToken } },
    },
    answers: {
      200: {
        description: 'Whether the record existed; with `lockToken`, whether that lock existed.',
        schema: RemoveAnswer,
        examples: {
          removed: { value: { ok: true, existed: true } },
          released: { value: { ok: true, existed: true } },
        },
      },
    },
    errors,
  },
  async handle({ query: { scope, key, lockToken: token = '' } }, { tenant }: Principal, records: Records) {
    const existed = await records.storeOf(tenant).remove({ tenantId: tenant.id, scope, key }, token)
    return plainAnswer(existed ? 'removed' : 'none', { ok: true, existed })
  },
})

const extendRoute = route({
  ...shared,
  method: 'POST',
  path: '/v1/record/extend',
  body: ExtendRequest,
  bodyBytesMax,
  operation: {
    id: 'extendLock',
    tag,
    summary: 'Extend a lock',
    description:
      'The lock is held for `lockSeconds` from now, or as long as it was first taken for. An expired lock can be extended until another caller takes it over.',
    examples: { extended: { value: { ...address, key: 'order-1044', lockToken, lockSeconds: 120 } } },
    answers: {
      200: {
        description: 'The lock is held.',
        schema: ExtendAnswer,
        examples: {
          extended: { value: { ok: true, fence: 1_795_258_166_892_694, expiresInMs: 120_000 } },
        },
      },
    },
    errors: [...errors, 'lock_lost'],
  },
  async handle({ body }, { tenant }: Principal, records: Records) {
    const { scope, key, lockToken: token, lockSeconds } = body
    const lockMs = lockSeconds === undefined ? null : lockSeconds * 1000
    const extended = await records.storeOf(tenant).extend({ tenantId: tenant.id, scope, key }, token, lockMs)
    if (extended.kind === 'lost') return apiError('lock_lost')
    return plainAnswer('extended', { ok: true, fence: extended.fence, expiresInMs: extended.expiresInMs })
  },
})

const parseBatchCheck = createParser(BatchCheck)

const batchRoute = route({
  ...shared,
  method: 'POST',
  path: '/v1/record/batch',
  body: BatchRequest,
  bodyBytesMax: () => batchBytesMax,
  operation: {
    id: 'checkRecords',
    tag,
    summary: 'Check up to 100 keys in one call',
    description: `Each check is answered on its own, in order. The records of one answer have ${batchRecordBytesMax / 2 ** 20} MiB together at most: a record over ${longRecordBytes / 1_024} KiB that does not fit is replaced by the error \`overloaded\`, and its key has to be checked in a call of its own. Checks that the store does not answer within ${batchMsMax} ms have \`store_unavailable\`.`,
    examples: {
      batch: {
        value: {
          checks: [
            { ...address, key: 'order-1044' },
            { scope: 'payments', key: 'order-1045' },
          ],
        },
      },
    },
    answers: {
      200: {
        description: 'One result for each check, in order. `Retry-After` is the smallest `retryAfterMs`.',
        schema: BatchAnswer,
        headers: ['Retry-After'],
        examples: {
          batch: {
            value: {
              results: [
                { cached: false, locked: true, lockToken, fence: 1_795_258_166_892_694, expiresInMs: 60_000 },
                { cached: false, locked: false, retryAfterMs: 1000 },
              ],
            },
          },
        },
      },
    },
    errors,
  },
  handle({ call, body: { checks }, text }, { tenant }: Principal, records: Records) {
    const received = receivedField(text, 'checks') ?? '[]'
    const spans = findElements(received)
    return checkBatch(records, {
      tenant,
      requestId: call.requestId,
      size: checks.length,
      check: (index) => parseOne(checks[index], received.slice(spans[index]?.start, spans[index]?.end)),
    })
  },
})

function parseOne(value: unknown, received: string): Parsed<BatchCheck> {
  const parsed = parseBatchCheck(value)
  if (parsed.kind === 'error' || !hasRepeatedMember(received, parsed.value)) return parsed
  return repeatedField(received, 'this check')
}

/** Returns the JSON text of a field as received. Must not be called for an object with repeated fields. */
function receivedField(text: string, name: string): string | undefined {
  const members = findMembers(text)
  const span = members.kind === 'found' ? members.spans.get(name) : undefined
  return span && text.slice(span.start, span.end)
}

/** Routes of `/v1/record`. */
export const recordRoutes = [checkRoute, saveRoute, fetchRoute, removeRoute, extendRoute, batchRoute]

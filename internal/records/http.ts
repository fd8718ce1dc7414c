import type { Principal } from '#internal/access/index.ts'
import {
  type ApiError,
  apiError,
  findElements,
  findMembers,
  hasRepeatedMember,
} from '#internal/base/index.ts'
import {
  type Answer,
  type Call,
  createParser,
  type GuardedRoute,
  type Parsed,
  parseJsonObject,
  parseQuery,
  quoteName,
} from '#internal/http/index.ts'
import type { ApiKeyScope } from '#internal/tenants/index.ts'
import { acquireRecord, noRoom, type Records, toAcquired } from './acquire.ts'
import { acquiredAnswer, explainStoreError, hitAnswer, outcomeOf, plainAnswer } from './answer.ts'
import { checkBatch } from './batch.ts'
import {
  BatchCheck,
  BatchRequest,
  CheckRequest,
  ExtendRequest,
  FetchQuery,
  findBadHeaderName,
  RemoveQuery,
  SaveRequest,
} from './requests.ts'
import { saveRecord } from './save.ts'

/** What a request may have beside the saved body. */
const slackBytes = 64 * 1024
const batchBytesMax = 1024 * 1024

const parseCheck = createParser(CheckRequest)
const parseBatch = createParser(BatchRequest)
const parseBatchCheck = createParser(BatchCheck)
const parseSave = createParser(SaveRequest)
const parseExtend = createParser(ExtendRequest)
const parseFetch = createParser(FetchQuery)
const parseRemove = createParser(RemoveQuery)

/**
 * The routes of `/v1/record`: who may call each, how much it reads, and what it does.
 * @param ending fires when the process begins to end: callers that wait for busy keys are then told that they are busy
 */
export function recordRoutes(
  records: Records,
  ending?: AbortSignal,
): readonly GuardedRoute<Principal, ApiKeyScope>[] {
  const access = { scope: 'records' } as const
  const path = '/v1/record'
  const bodyBytesMax = records.bodyBytesMax + slackBytes
  return [
    {
      method: 'POST',
      path,
      access,
      bodyBytesMax,
      handle: (call, { tenant }) => check(records, call, tenant, ending),
    },
    { method: 'PUT', path, access, bodyBytesMax, handle: (call, { tenant }) => save(records, call, tenant) },
    {
      method: 'GET',
      path,
      access,
      bodyBytesMax: 0,
      handle: (call, { tenant }) => fetch(records, call, tenant),
    },
    {
      method: 'DELETE',
      path,
      access,
      bodyBytesMax: 0,
      handle: (call, { tenant }) => remove(records, call, tenant),
    },
    {
      method: 'POST',
      path: '/v1/record/extend',
      access,
      bodyBytesMax,
      handle: (call, { tenant }) => extend(records, call, tenant),
    },
    {
      method: 'POST',
      path: '/v1/record/batch',
      access,
      bodyBytesMax: batchBytesMax,
      handle: (call, { tenant }) => batch(records, call, tenant),
    },
  ]
}

type Tenant = Principal['tenant']

async function check(
  records: Records,
  call: Call,
  tenant: Tenant,
  ending: AbortSignal | undefined,
): Promise<Answer | ApiError> {
  try {
    const parsed = parseCheckBody(call.body)
    if (parsed.kind === 'error') {
      records.onChecked(parsed.code)
      return parsed
    }
    // Reading `signal` is not free, and only a caller that waits can hang up in between.
    const signal = parsed.value.waitMs ? anyOf(call.request.signal, ending) : undefined
    const acquired = toAcquired(records, await acquireRecord(records, tenant, parsed.value, signal), tenant)
    records.onChecked(outcomeOf(acquired))
    return acquired.kind === 'error' ? acquired : acquiredAnswer(acquired)
  } catch (error) {
    records.onChecked(explainStoreError(error)?.code ?? 'internal')
    throw error
  }
}

function parseCheckBody(body: Uint8Array): Parsed<CheckRequest> {
  const json = parseJsonObject(body)
  return json.kind === 'error' ? json : parseCheck(json.value)
}

function anyOf(hungUp: AbortSignal, ending: AbortSignal | undefined): AbortSignal {
  return ending ? AbortSignal.any([hungUp, ending]) : hungUp
}

async function batch(records: Records, call: Call, tenant: Tenant): Promise<Answer | ApiError> {
  const json = parseJsonObject(call.body)
  if (json.kind === 'error') return json
  const parsed = parseBatch(json.value)
  if (parsed.kind === 'error') return parsed
  const { checks } = parsed.value
  const received = receivedField(json.text, 'checks') ?? '[]'
  const spans = findElements(received)
  return checkBatch(records, {
    tenant,
    requestId: call.requestId,
    size: checks.length,
    check: (index) => parseOne(checks[index], received.slice(spans[index]?.start, spans[index]?.end)),
  })
}

function parseOne(value: unknown, received: string): Parsed<BatchCheck> {
  const parsed = parseBatchCheck(value)
  if (parsed.kind === 'error' || !hasRepeatedMember(received, parsed.value)) return parsed
  return apiError('invalid_request', 'A field stands twice in this check')
}

async function save(records: Records, call: Call, tenant: Tenant): Promise<Answer | ApiError> {
  const json = parseJsonObject(call.body)
  if (json.kind === 'error') return json
  const parsed = parseSave(json.value)
  if (parsed.kind === 'error') return parsed
  const received = {
    headers: receivedField(json.text, 'headers') ?? '{}',
    body: receivedField(json.text, 'body') ?? 'null',
  }
  const badName = findBadHeaderName(parsed.value.headers ?? {})
  if (badName !== undefined) {
    const rule = 'is not a valid HTTP field name (RFC 9110 token, 1 to 256 characters)'
    return apiError('invalid_request', `"headers": the name ${quoteName(badName)} ${rule}`)
  }
  // It is kept as received, and readers of JSON do not agree which of the two counts.
  if (findMembers(received.headers).kind === 'repeated') {
    return apiError('invalid_request', 'A name stands twice in "headers"')
  }
  const saved = await saveRecord(records, tenant, parsed.value, received)
  return saved.kind === 'error' ? saved : plainAnswer('saved', { ok: true })
}

async function fetch(records: Records, call: Call, tenant: Tenant): Promise<Answer | ApiError> {
  const query = parseQuery(call.request.url)
  if (query.kind === 'error') return query
  const parsed = parseFetch(query.values)
  if (parsed.kind === 'error') return parsed
  const found = await records.store.fetch({ tenantId: tenant.id, ...parsed.value })
  if (found.kind === 'long') return noRoom()
  return found.kind === 'hit' ? hitAnswer(found.record) : plainAnswer('none', { cached: false })
}

async function remove(records: Records, call: Call, tenant: Tenant): Promise<Answer | ApiError> {
  const query = parseQuery(call.request.url)
  if (query.kind === 'error') return query
  const parsed = parseRemove(query.values)
  if (parsed.kind === 'error') return parsed
  const { scope, key, lockToken = '' } = parsed.value
  const existed = await records.store.remove({ tenantId: tenant.id, scope, key }, lockToken)
  return plainAnswer(existed ? 'removed' : 'none', { ok: true, existed })
}

async function extend(records: Records, call: Call, tenant: Tenant): Promise<Answer | ApiError> {
  const json = parseJsonObject(call.body)
  if (json.kind === 'error') return json
  const parsed = parseExtend(json.value)
  if (parsed.kind === 'error') return parsed
  const { scope, key, lockToken, lockSeconds } = parsed.value
  const lockMs = lockSeconds === undefined ? null : lockSeconds * 1000
  const extended = await records.store.extend({ tenantId: tenant.id, scope, key }, lockToken, lockMs)
  if (extended.kind === 'lost') return apiError('lock_lost')
  return plainAnswer('extended', { ok: true, fence: extended.fence, expiresInMs: extended.expiresInMs })
}

/** The received text of one field of an object without repeated ones. */
function receivedField(text: string, name: string): string | undefined {
  const members = findMembers(text)
  const span = members.kind === 'found' ? members.spans.get(name) : undefined
  return span && text.slice(span.start, span.end)
}

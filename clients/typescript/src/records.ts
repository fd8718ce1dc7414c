import type { components } from './api.generated.ts'
import type { Address } from './options.ts'
import type { Pending, StoredRecord } from './outcome.ts'
import { callMsMax, isObject, type Reply, type Service } from './service.ts'

type Schemas = components['schemas']

/** Lock that the service granted. */
export type Lock = Schemas['LockTaken']

/** Bounds of a single call. */
export interface CallBounds {
  /** Default 5 s. */
  readonly timeoutMs?: number
  readonly signal?: AbortSignal | undefined
}

/** Gets the record or the lock; waits for a busy key for up to `waitMs` of the request. */
export function checkRecord(
  service: Service,
  request: Schemas['CheckRequest'],
  { timeoutMs = callMsMax, signal }: CallBounds,
): Promise<Reply<Schemas['CheckAnswer']>> {
  const body = JSON.stringify(request)
  return service.call({ method: 'POST', path: '/v1/record', body, timeoutMs, signal, parse: parseCheck })
}

/** Returns the body of a call that saves a record. @throws if the record is not JSON */
export function saveText({ scope, key, lockToken, ttlSeconds, record }: Pending): string {
  const request: Schemas['SaveRequest'] = {
    scope,
    key,
    lockToken,
    status: record.status,
    headers: record.headers,
    body: record.body,
    ...(ttlSeconds !== undefined && { ttlSeconds }),
  }
  try {
    return JSON.stringify(request)
  } catch (cause) {
    throw new TypeError(
      'Latchkey: the result of the operation is not JSON, so it is not saved. The operation has run, but later calls with its key cannot know whether it had its effect',
      { cause },
    )
  }
}

/** Saves a record. */
export function saveRecord(service: Service, body: string, bounds: CallBounds): Promise<Reply<true>> {
  const { timeoutMs = callMsMax, signal } = bounds
  return service.call({ method: 'PUT', path: '/v1/record', body, timeoutMs, signal, parse: parseOk })
}

/** Extends or shortens a lock; returns the milliseconds that it is held from now on. */
export function extendLock(
  service: Service,
  { scope, key }: Address,
  lock: { readonly lockToken: string; readonly lockSeconds: number },
  { timeoutMs = callMsMax, signal }: CallBounds,
): Promise<Reply<number>> {
  const request: Schemas['ExtendRequest'] = { scope, key, ...lock }
  const body = JSON.stringify(request)
  return service.call({
    method: 'POST',
    path: '/v1/record/extend',
    body,
    timeoutMs,
    signal,
    parse: parseExtended,
  })
}

/** Releases the lock of this token; without a token, removes the record. Returns whether the lock or record existed. */
export function removeRecord(
  service: Service,
  { scope, key }: Address,
  lockToken: string | undefined,
  { timeoutMs = callMsMax, signal }: CallBounds,
): Promise<Reply<boolean>> {
  const query = new URLSearchParams({ scope, key, ...(lockToken !== undefined && { lockToken }) })
  return service.call({
    method: 'DELETE',
    path: `/v1/record?${query}`,
    timeoutMs,
    signal,
    parse: parseRemoved,
  })
}

/** Returns the record, or null if there is none. */
export function fetchRecord(
  service: Service,
  { scope, key }: Address,
  { timeoutMs = callMsMax, signal }: CallBounds,
): Promise<Reply<StoredRecord | null>> {
  const query = new URLSearchParams({ scope, key })
  return service.call({ method: 'GET', path: `/v1/record?${query}`, timeoutMs, signal, parse: parseFetched })
}

function parseCheck(body: unknown): Schemas['CheckAnswer'] | undefined {
  if (!isObject(body)) return undefined
  if (body['cached'] === true) return isRecord(body['record']) ? (body as Schemas['RecordFound']) : undefined
  if (body['cached'] !== false) return undefined
  const { locked, lockToken, fence, expiresInMs, retryAfterMs } = body
  if (locked === false && typeof retryAfterMs === 'number') return body as Schemas['LockBusy']
  const isLock =
    locked === true &&
    typeof lockToken === 'string' &&
    typeof fence === 'number' &&
    typeof expiresInMs === 'number'
  return isLock ? (body as Lock) : undefined
}

function parseFetched(body: unknown): StoredRecord | null | undefined {
  if (!isObject(body)) return undefined
  if (body['cached'] === false) return null
  return body['cached'] === true && isRecord(body['record']) ? body['record'] : undefined
}

function isRecord(value: unknown): value is StoredRecord {
  return (
    isObject(value) && typeof value['status'] === 'number' && isObject(value['headers']) && 'body' in value
  )
}

function parseOk(body: unknown): true | undefined {
  return isObject(body) && body['ok'] === true ? true : undefined
}

function parseExtended(body: unknown): number | undefined {
  return isObject(body) && typeof body['expiresInMs'] === 'number' ? body['expiresInMs'] : undefined
}

function parseRemoved(body: unknown): boolean | undefined {
  return isObject(body) && typeof body['existed'] === 'boolean' ? body['existed'] : undefined
}

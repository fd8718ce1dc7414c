import { type ApiError, apiError } from '#internal/base/index.ts'
import { checkTtl, type Records, type RecordTenant } from './acquire.ts'
import { decideLifetimes, joinRecord, type SaveOutcome } from './record.ts'
import type { SaveRequest } from './requests.ts'

/** Saves a response. The first record is kept, and a repeat of its save succeeds. A refused save changes neither lock nor record. */
export async function saveRecord(
  records: Records,
  tenant: RecordTenant,
  request: SaveRequest,
  received: {
    /** JSON text of an object of strings. */
    readonly headers: string
    /** JSON text of any value. */
    readonly body: string
  },
): Promise<Extract<SaveOutcome, { kind: 'saved' }> | ApiError> {
  const ttlSecondsMax = Math.min(records.ttlSecondsMax, tenant.records.ttlSecondsMax)
  const bodyBytesMax = Math.min(records.bodyBytesMax, tenant.records.bodyBytesMax)
  const tooLong = checkTtl(request.ttlSeconds, ttlSecondsMax)
  if (tooLong) return tooLong
  if (Buffer.byteLength(received.body) > bodyBytesMax) {
    return apiError('invalid_request', `"body" must not be longer than ${bodyBytesMax} bytes of JSON`)
  }
  if (tenant.records.requireLockToken && request.lockToken === undefined) {
    return apiError(
      'invalid_request',
      '"lockToken" is required by this tenant: send the one that POST answered',
    )
  }
  const outcome = await records.storeOf(tenant).save({
    tenantId: tenant.id,
    scope: request.scope,
    key: request.key,
    lockToken: request.lockToken ?? '',
    ttlMs: request.ttlSeconds === undefined ? null : request.ttlSeconds * 1000,
    defaultTtlMs: decideLifetimes({}, ttlSecondsMax).ttlMs,
    record: joinRecord(request.status, received.headers, received.body),
  })
  switch (outcome.kind) {
    case 'saved':
      return outcome
    case 'exists':
      return apiError('record_exists')
    case 'lost':
      return apiError('lock_lost')
    default:
      return outcome satisfies never
  }
}

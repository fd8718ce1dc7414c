import { type ApiError, apiError, randomToken } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type LockLimits, limitHeaders } from '#internal/usage/index.ts'
import { type AcquireOutcome, type CheckOutcome, decideLifetimes } from './record.ts'
import type { CheckRequest } from './requests.ts'
import { type AcquireInput, entryKey, type RecordStore } from './store.ts'
import type { Waiters } from './wait.ts'

/** Outcome of a check that is not refused. `busy`: another caller holds the lock. */
export type Acquired = Exclude<AcquireOutcome, { kind: 'mismatch' | 'limited' | 'long' }>

/** Fields of a tenant that the record routes use. */
export type RecordTenant = Pick<DirectoryTenant, 'id' | 'records' | 'recordStore' | 'limits'>

/** Dependencies of the record routes. */
export interface Records {
  /** Returns the store of a tenant's records that this process knows now. After a wait, it can be another store. */
  storeOf(tenant: RecordTenant): RecordStore
  readonly waiters: Waiters
  /** Maximum ttl for all tenants; a tenant can only set a lower maximum. */
  readonly ttlSecondsMax: number
  readonly bodyBytesMax: number
  /** Called for each check, so that a changed limit counts immediately. */
  limitsOf(tenant: RecordTenant): LockLimits
  /** Called for every completed check, including each check of a batch. Must not throw. */
  readonly onChecked: (outcome: CheckOutcome) => void
  /** Aborts when the process begins to shut down. Callers that wait for a busy key then get a busy response. */
  readonly ending?: AbortSignal
}

/**
 * Returns the record of a scope and key, or acquires its lock. Waits up to `waitMs` while another caller holds the lock. Callers must
 * convert the outcome with `toAcquired`: a conversion here would cost every check another promise.
 * @param signal aborts when the caller has hung up, so that it acquires no lock afterwards
 */
export function acquireRecord(
  records: Records,
  tenant: RecordTenant,
  request: CheckRequest,
  signal?: AbortSignal,
): Promise<AcquireOutcome> | ApiError {
  const input = acquireInput(records, tenant, request)
  if ('code' in input) return input
  const { waitMs = 0 } = request
  if (waitMs === 0) return records.storeOf(tenant).acquire(input)
  return acquireOrWait({ records, tenant, input }, waitMs, signal)
}

interface Asked {
  readonly records: Records
  readonly tenant: RecordTenant
  readonly input: AcquireInput
}

async function acquireOrWait(
  { records, tenant, input }: Asked,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<AcquireOutcome> {
  let outcome = await records.storeOf(tenant).acquire(input)
  if (outcome.kind === 'busy') {
    const waiter = { tenantId: input.tenantId, entry: entryKey(input), waitMs, ...(signal && { signal }) }
    outcome = await records.waiters.wait(waiter, outcome, async () => {
      const again = await records.storeOf(tenant).acquire({ ...input, waits: true })
      return again.kind === 'busy' ? again : { kind: 'done', outcome: again }
    })
  }
  if (outcome.kind === 'locked' && signal?.aborted === true)
    return releaseOrphan({ records, tenant, input }, outcome.lockToken)
  return outcome
}

/** Releases a lock granted to a caller that hung up. Keeps a lock with an `attemptId`: a repeated call with this id gets it. */
async function releaseOrphan({ records, tenant, input }: Asked, lockToken: string): Promise<Acquired> {
  if (input.attemptId === '') await records.storeOf(tenant).remove(input, lockToken)
  return { kind: 'busy', remainingMs: 0 }
}

export function acquireInput(
  records: Pick<Records, 'ttlSecondsMax' | 'limitsOf'>,
  tenant: RecordTenant,
  request: CheckRequest,
): AcquireInput | ApiError {
  const ttlSecondsMax = Math.min(records.ttlSecondsMax, tenant.records.ttlSecondsMax)
  const tooLong = checkTtl(request.ttlSeconds, ttlSecondsMax)
  if (tooLong) return tooLong
  const { ttlMs, lockMs } = decideLifetimes(request, ttlSecondsMax)
  return {
    tenantId: tenant.id,
    scope: request.scope,
    key: request.key,
    ttlMs,
    lockMs,
    lockToken: randomToken(),
    fingerprint: request.fingerprint ?? '',
    attemptId: request.attemptId ?? '',
    waits: false,
    limits: records.limitsOf(tenant),
  }
}

export function checkTtl(ttlSeconds: number | undefined, ttlSecondsMax: number): ApiError | undefined {
  if (ttlSeconds === undefined || ttlSeconds <= ttlSecondsMax) return undefined
  return apiError('invalid_request', `"ttlSeconds" must be a whole number from 1 to ${ttlSecondsMax}`)
}

export function toAcquired(
  records: Pick<Records, 'limitsOf'>,
  outcome: AcquireOutcome | ApiError,
  tenant: RecordTenant,
): Acquired | ApiError {
  switch (outcome.kind) {
    case 'mismatch':
      return apiError('fingerprint_mismatch')
    case 'limited': {
      const quota = records.limitsOf(tenant)[outcome.limit] ?? 0
      return apiError('limit_exceeded', undefined, limitHeaders(outcome.limit, quota, outcome.retryAfterMs))
    }
    case 'long':
      return noRoom()
    default:
      return outcome
  }
}

/** Error for a long record that does not fit into the memory for long records. */
export function noRoom(): ApiError {
  const text = 'The results of this batch leave no room for this record: check its key in a separate call'
  return apiError('overloaded', text, { 'Retry-After': '1' })
}

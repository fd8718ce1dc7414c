import { type ApiError, apiError, randomToken } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type LockLimits, limitHeaders } from '#internal/usage/index.ts'
import { type AcquireOutcome, type CheckOutcome, decideLifetimes } from './record.ts'
import type { CheckRequest } from './requests.ts'
import { type AcquireInput, entryKey, type RecordStore } from './store.ts'
import type { Waiters } from './wait.ts'

/** Successful outcome of a check. */
export type Acquired = Exclude<AcquireOutcome, { kind: 'mismatch' | 'limited' | 'long' }>

/** Part of a tenant that records use. */
export type RecordTenant = Pick<DirectoryTenant, 'id' | 'records' | 'limits'>

/** Dependencies of the record routes. */
export interface Records {
  readonly store: RecordStore
  readonly waiters: Waiters
  /** The platform's caps; those of a tenant can only be lower. */
  readonly ttlSecondsMax: number
  readonly bodyBytesMax: number
  /** Returns the hard limits of a tenant's locks now; called for each check. */
  limitsOf(tenant: RecordTenant): LockLimits
  /** Called for every answered check, also in a batch. Must not throw. */
  readonly onChecked: (outcome: CheckOutcome) => void
  /** Aborts when the process begins to stop; waiting callers then get their busy answer. */
  readonly ending?: AbortSignal
}

/**
 * Returns the record of a scope and key, or takes its lock, waiting `waitMs` for a busy key. Callers pass the outcome to `toAcquired`;
 * another promise in between would slow every check.
 * @param signal aborts when the caller hung up, which must not win a lock then
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
  return waitMs === 0 ? records.store.acquire(input) : acquireOrWait(records, input, waitMs, signal)
}

async function acquireOrWait(
  records: Records,
  input: AcquireInput,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<AcquireOutcome> {
  let outcome = await records.store.acquire(input)
  if (outcome.kind === 'busy') {
    const waiter = { tenantId: input.tenantId, entry: entryKey(input), waitMs, ...(signal && { signal }) }
    outcome = await records.waiters.wait(waiter, outcome, async () => {
      const again = await records.store.acquire({ ...input, waits: true })
      return again.kind === 'busy' ? again : { kind: 'done', outcome: again }
    })
  }
  if (outcome.kind === 'locked' && signal?.aborted === true)
    return releaseOrphan(records, input, outcome.lockToken)
  return outcome
}

/** Releases a lock granted to a caller that hung up. A lock with an `attemptId` is kept, because its attempt may repeat the call. */
async function releaseOrphan(records: Records, input: AcquireInput, lockToken: string): Promise<Acquired> {
  if (input.attemptId === '') await records.store.remove(input, lockToken)
  return { kind: 'busy', remainingMs: 0 }
}

/** Checks a request against the tenant's caps and returns the store's input. */
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

/** Returns the error for a ttl over the cap, or undefined. */
export function checkTtl(ttlSeconds: number | undefined, ttlSecondsMax: number): ApiError | undefined {
  if (ttlSeconds === undefined || ttlSeconds <= ttlSecondsMax) return undefined
  return apiError('invalid_request', `"ttlSeconds" must be at most ${ttlSecondsMax}`)
}

/** Maps refusals to errors. */
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

/** Returns the error for a long record without room. */
export function noRoom(): ApiError {
  const text = 'There is no room for a record of this size now: ask again, in a batch for this key alone'
  return apiError('overloaded', text, { 'Retry-After': '1' })
}

import { type ApiError, apiError, randomToken } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type LockLimits, limitHeaders } from '#internal/usage/index.ts'
import { type AcquireOutcome, type CheckOutcome, decideLifetimes } from './record.ts'
import type { CheckRequest } from './requests.ts'
import { type AcquireInput, entryKey, type RecordStore } from './store.ts'
import type { Waiters } from './wait.ts'

/** Outcome of a check that is no error. */
export type Acquired = Exclude<AcquireOutcome, { kind: 'mismatch' | 'limited' | 'long' }>

/** Part of a tenant that records use. */
export type RecordTenant = Pick<DirectoryTenant, 'id' | 'records' | 'limits'>

/** Dependencies of the record routes. */
export interface Records {
  readonly store: RecordStore
  readonly waiters: Waiters
  /** The platform's caps; a tenant's own may only be lower. */
  readonly ttlSecondsMax: number
  readonly bodyBytesMax: number
  /** The hard limits of a tenant's locks that are in force now; asked for each check. */
  limitsOf(tenant: RecordTenant): LockLimits
  /** Hears of every check that was answered, of those in a batch each; must not throw. */
  readonly onChecked: (outcome: CheckOutcome) => void
  /** Fires when the process begins to end: callers that wait for busy keys are then answered busy. */
  readonly ending?: AbortSignal
}

/**
 * Looks for the record of a scope and key, or takes its lock, waiting `waitMs` for a busy key. What it gives is for
 * `toAcquired`: one promise more between the two would be felt by every check.
 * @param signal fires when the caller has hung up: nobody may win a lock for a caller that is gone
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
    return giveBack(records, input, outcome.lockToken)
  return outcome
}

/**
 * Releases a lock that was granted while its caller hung up. One that has an `attemptId` is kept: the same attempt may come
 * back for it, and may have got it again already.
 */
async function giveBack(records: Records, input: AcquireInput, lockToken: string): Promise<Acquired> {
  if (input.attemptId === '') await records.store.remove(input, lockToken)
  return { kind: 'busy', remainingMs: 0 }
}

/** Checks a request against the tenant's caps and makes what the store needs of it. */
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

/** The error for a ttl over the cap, if it is. */
export function checkTtl(ttlSeconds: number | undefined, ttlSecondsMax: number): ApiError | undefined {
  if (ttlSeconds === undefined || ttlSeconds <= ttlSecondsMax) return undefined
  return apiError('invalid_request', `"ttlSeconds" must be at most ${ttlSecondsMax}`)
}

/** Tells a check's errors from the outcomes that are none. */
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

/** The error for a record that there is no room for. */
export function noRoom(): ApiError {
  const text = 'There is no room for a record of this size now: ask again, in a batch for this key alone'
  return apiError('overloaded', text, { 'Retry-After': '1' })
}

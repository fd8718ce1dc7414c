import { type ApiError, apiError, randomToken } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { limitHeaders, resolveLockLimits } from '#internal/usage/index.ts'
import { type AcquireOutcome, decideLifetimes } from './record.ts'
import type { CheckRequest } from './requests.ts'
import { type AcquireInput, entryKey, type RecordStore } from './store.ts'
import type { Waiters } from './wait.ts'

/** What a check comes to: an outcome that is no error. */
export type Acquired = Exclude<AcquireOutcome, { kind: 'mismatch' | 'limited' }>

/** What records are made with. */
export interface Records {
  readonly store: RecordStore
  readonly waiters: Waiters
  /** The platform's caps; a tenant's own may only be lower. */
  readonly ttlSecondsMax: number
  readonly bodyBytesMax: number
}

/**
 * Looks for the record of a scope and key, or takes its lock, waiting `waitMs` for a busy key.
 * @param signal fires when the caller has hung up: nobody may win a lock for a caller that is gone
 */
export async function acquireRecord(
  records: Records,
  tenant: DirectoryTenant,
  request: CheckRequest,
  signal?: AbortSignal,
): Promise<Acquired | ApiError> {
  const input = acquireInput(records, tenant, request)
  if ('code' in input) return input
  const { waitMs = 0 } = request
  const outcome = await (waitMs === 0
    ? records.store.acquire(input)
    : acquireOrWait(records, input, waitMs, signal))
  const unwanted = outcome.kind === 'locked' && signal?.aborted === true
  return unwanted ? giveBack(records, input, outcome.lockToken) : toAnswer(outcome, input)
}

async function acquireOrWait(
  records: Records,
  input: AcquireInput,
  waitMs: number,
  signal: AbortSignal | undefined,
): Promise<AcquireOutcome> {
  const outcome = await records.store.acquire(input)
  if (outcome.kind !== 'busy') return outcome
  return records.waiters.wait(
    { tenantId: input.tenantId, entry: entryKey(input), waitMs, ...(signal && { signal }) },
    outcome,
    async () => {
      const again = await records.store.acquire({ ...input, waits: true })
      return again.kind === 'busy' ? again : { kind: 'done', outcome: again }
    },
  )
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
function acquireInput(
  records: Records,
  tenant: DirectoryTenant,
  request: CheckRequest,
): AcquireInput | ApiError {
  const ttlSecondsMax = Math.min(records.ttlSecondsMax, tenant.records.ttlSecondsMax)
  const tooLong = checkTtl(request.ttlSeconds, ttlSecondsMax)
  if (tooLong) return tooLong
  return {
    tenantId: tenant.id,
    scope: request.scope,
    key: request.key,
    ...decideLifetimes(request, ttlSecondsMax),
    lockToken: randomToken(),
    fingerprint: request.fingerprint ?? '',
    attemptId: request.attemptId ?? '',
    waits: false,
    limits: resolveLockLimits(tenant.limits),
  }
}

/** The error for a ttl over the cap, if it is. */
export function checkTtl(ttlSeconds: number | undefined, ttlSecondsMax: number): ApiError | undefined {
  if (ttlSeconds === undefined || ttlSeconds <= ttlSecondsMax) return undefined
  return apiError('invalid_request', `"ttlSeconds" must be at most ${ttlSecondsMax}`)
}

function toAnswer(outcome: AcquireOutcome, input: AcquireInput): Acquired | ApiError {
  switch (outcome.kind) {
    case 'mismatch':
      return apiError('fingerprint_mismatch')
    case 'limited': {
      const quota = input.limits[outcome.limit] ?? 0
      return apiError('limit_exceeded', undefined, limitHeaders(outcome.limit, quota, outcome.retryAfterMs))
    }
    default:
      return outcome
  }
}

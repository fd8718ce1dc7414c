import type { ErrorCode, TenantId } from '#internal/base/index.ts'
import type { LockLimitName } from '#internal/usage/index.ts'

/** Identifies a record and its lock. */
export interface RecordAddress {
  readonly tenantId: TenantId
  readonly scope: string
  readonly key: string
  /** Time of `performance.now()` after which no further step of the call may start. Absent: the step has a deadline of its own. */
  readonly overAtMs?: number
  /** Place after a move; absent for a tenant whose records never moved. */
  readonly place?: RecordPlace
}

/** The caller's view of the place of a tenant's records, after they have moved between stores. */
export interface RecordPlace {
  readonly generation: number
  /** True in the store of new records and locks, false in the earlier store. */
  readonly isCurrent: boolean
  /** Last fence of the earlier store, above which the current one grants a lock. */
  readonly fence?: number
  /** True if a lock of the key ended in the earlier store without its outcome, so that the next one takes it over. */
  readonly isTakeover?: boolean
}

/** `record` is the JSON text `{"status":…,"headers":{…},"body":…}` with its values as received. */
export type AcquireOutcome =
  | { readonly kind: 'hit'; readonly record: string }
  | {
      readonly kind: 'locked'
      readonly lockToken: string
      readonly fence: number
      readonly expiresInMs: number
      readonly takenOver: boolean
    }
  | { readonly kind: 'busy'; readonly remainingMs: number }
  | { readonly kind: 'mismatch' }
  | LongOutcome
  | { readonly kind: 'limited'; readonly limit: LockLimitName; readonly retryAfterMs: number }

/** Record that is not returned, because it is long and no memory is reserved for it. */
export interface LongOutcome {
  readonly kind: 'long'
  readonly bytes: number
}

/** Outcome of a check. Closed set, so it can be a metric label. */
export type CheckOutcome = 'hit' | 'locked' | 'taken_over' | 'busy' | ErrorCode

/** `lost`: the lock token no longer owns a lock. `exists`: a different response was saved before. */
export type SaveOutcome = { readonly kind: 'saved' } | { readonly kind: 'exists' } | { readonly kind: 'lost' }

export type FetchOutcome =
  | { readonly kind: 'hit'; readonly record: string }
  | LongOutcome
  | { readonly kind: 'none' }

export type ExtendOutcome =
  | { readonly kind: 'extended'; readonly fence: number; readonly expiresInMs: number }
  | { readonly kind: 'lost' }

export interface Lifetimes {
  readonly ttlMs: number
  readonly lockMs: number
}

const defaultTtlSeconds = 86_400
const defaultLockSeconds = 60

/** The tenant's maximum limits the default ttl. A lock never ends later than its record. */
export function decideLifetimes(
  asked: { readonly ttlSeconds?: number | undefined; readonly lockSeconds?: number | undefined },
  ttlSecondsMax: number,
): Lifetimes {
  const ttlSeconds = asked.ttlSeconds ?? Math.min(defaultTtlSeconds, ttlSecondsMax)
  return {
    ttlMs: ttlSeconds * 1000,
    lockMs: Math.min(asked.lockSeconds ?? defaultLockSeconds, ttlSeconds) * 1000,
  }
}

const retryAfterMsMax = 1000

/** Delay before a retry of a busy key: the remaining duration of the lock, at most a second, since most work ends sooner. */
export function suggestRetryMs(remainingMs: number): number {
  return Math.max(1, Math.min(Math.ceil(remainingMs), retryAfterMsMax))
}

/** Sleep of a waiter before its next poll: until the end of the lock, the waiter's deadline, or a second, whichever is first. */
export function decideWaitMs(remainingMs: number, deadlineMs: number, nowMs: number): number {
  return Math.max(0, Math.min(suggestRetryMs(remainingMs), deadlineMs - nowMs))
}

/** Keeps each part as received. */
export function joinRecord(status: number, headers: string, body: string): string {
  return `{"status":${status},"headers":${headers},"body":${body}}`
}

export function statusOf(record: string): number {
  return Number(record.slice(statusAt, statusAt + 3))
}

const statusAt = '{"status":'.length

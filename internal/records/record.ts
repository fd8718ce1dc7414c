import type { ErrorCode, TenantId } from '#internal/base/index.ts'
import type { LockLimitName } from '#internal/usage/index.ts'

/** Identifies a record and its lock. */
export interface RecordAddress {
  readonly tenantId: TenantId
  readonly scope: string
  readonly key: string
  /** Time of `performance.now()` after which no further step of the call may start. Absent: the step has a deadline of its own. */
  readonly overAtMs?: number
  /** Place of the tenant's records after a move; absent if they never moved. */
  readonly place?: RecordPlace
}

/** Place of a tenant's records after a move between stores, as the caller knows it. */
export interface RecordPlace {
  readonly generation: number
  /** True in the store of new records and locks, false in the earlier store. */
  readonly isCurrent: boolean
  /** Last fence of the earlier store. The current store grants locks with higher fences only. */
  readonly fence?: number
  /** True if a lock of the key expired in the earlier store without an outcome, so that the next lock counts as a takeover. */
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

/** Decides the durations of a lock and its record. The tenant's maximum also limits the default ttl. A lock never ends after its record. */
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

/** Suggested delay before a retry of a busy key: the remaining duration of the lock, but at most a second, since most work ends sooner. */
export function suggestRetryMs(remainingMs: number): number {
  return Math.max(1, Math.min(Math.ceil(remainingMs), retryAfterMsMax))
}

/** Sleep of a waiting caller before its next poll: until the lock ends, its deadline is reached or a second has passed. */
export function decideWaitMs(remainingMs: number, deadlineMs: number, nowMs: number): number {
  return Math.max(0, Math.min(suggestRetryMs(remainingMs), deadlineMs - nowMs))
}

/** Builds the JSON text of a record from its parts, which are kept as received. */
export function joinRecord(status: number, headers: string, body: string): string {
  return `{"status":${status},"headers":${headers},"body":${body}}`
}

export function statusOf(record: string): number {
  return Number(record.slice(statusAt, statusAt + 3))
}

const statusAt = '{"status":'.length

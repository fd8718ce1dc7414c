import type { ErrorCode, TenantId } from '#internal/base/index.ts'
import type { LockLimitName } from '#internal/usage/index.ts'

/** Address of a record and its lock. */
export interface RecordAddress {
  readonly tenantId: TenantId
  readonly scope: string
  readonly key: string
}

/**
 * Outcome of a check: the saved response, the lock, or the reason for neither. `record` is JSON text
 * `{"status":…,"headers":{…},"body":…}` with its parts as received.
 */
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

/** A record of `bytes` exists, without room for it. */
export interface LongOutcome {
  readonly kind: 'long'
  readonly bytes: number
}

/** Outcome of a check: a closed set, usable as a metric label. */
export type CheckOutcome = 'hit' | 'locked' | 'taken_over' | 'busy' | ErrorCode

/** Result of a save. `lost`: the token owns no lock any more. `exists`: another result was saved before. */
export type SaveOutcome = { readonly kind: 'saved' } | { readonly kind: 'exists' } | { readonly kind: 'lost' }

/** Result of a fetch. */
export type FetchOutcome =
  | { readonly kind: 'hit'; readonly record: string }
  | LongOutcome
  | { readonly kind: 'none' }

/** Result of extending a lock. */
export type ExtendOutcome =
  | { readonly kind: 'extended'; readonly fence: number; readonly expiresInMs: number }
  | { readonly kind: 'lost' }

/** Lifetimes of a lock and its record, in milliseconds. */
export interface Lifetimes {
  readonly ttlMs: number
  readonly lockMs: number
}

const defaultTtlSeconds = 86_400
const defaultLockSeconds = 60

/** Decides the lifetimes of a check, bounded by the tenant's cap; a lock ends no later than its record would. */
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

/** Returns the delay before the next check of a busy key: until the lock's end, at most a second, since most work ends sooner. */
export function suggestRetryMs(remainingMs: number): number {
  return Math.max(1, Math.min(Math.ceil(remainingMs), retryAfterMsMax))
}

/** Returns the sleep of a waiter before its next poll: until the lock's end, its deadline, or a second. */
export function decideWaitMs(remainingMs: number, deadlineMs: number, nowMs: number): number {
  return Math.max(0, Math.min(suggestRetryMs(remainingMs), deadlineMs - nowMs))
}

/** Joins a record's JSON from spans of the request, so that each stays as received. */
export function joinRecord(status: number, headers: string, body: string): string {
  return `{"status":${status},"headers":${headers},"body":${body}}`
}

/** Returns the status in the JSON text of `joinRecord`. */
export function statusOf(record: string): number {
  return Number(record.slice(statusAt, statusAt + 3))
}

const statusAt = '{"status":'.length

import type { Shares, TenantId } from '#internal/base/index.ts'
import type { LockLimits } from '#internal/usage/index.ts'
import type {
  AcquireOutcome,
  ExtendOutcome,
  FetchOutcome,
  Lifetimes,
  RecordAddress,
  SaveOutcome,
} from './record.ts'

export interface AcquireInput extends RecordAddress, Lifetimes {
  /** New token, which becomes the token of the lock if it is acquired. */
  readonly lockToken: string
  /** Text from the caller; empty without one. */
  readonly fingerprint: string
  /** Text from the caller; empty without one. */
  readonly attemptId: string
  /** True if the caller waits for a busy key, so that the end of the current lock must be published. */
  readonly waits: boolean
  readonly limits: LockLimits
  /** Reply for a long record: its size, or the whole record if the caller has reserved memory. Default: the store reserves memory. */
  readonly long?: 'sized' | 'whole'
}

export interface SaveInput extends RecordAddress {
  /** Token of the lock; empty for a save without a lock. */
  readonly lockToken: string
  /** Ttl of the record; null for the ttl with which the lock was acquired. */
  readonly ttlMs: number | null
  /** Ttl of a record that is saved without a lock. */
  readonly defaultTtlMs: number
  /** JSON text made by `joinRecord`. */
  readonly record: string
}

/** Failure of a call to records in Postgres. Its effect is unknown, except for `overloaded` and `moved`, which changed nothing. */
export class RecordsUnavailable extends Error {
  override readonly name = 'RecordsUnavailable'

  /** `moved`: the tenant's records have moved to another store, which this process does not know yet. */
  readonly reason: 'overloaded' | 'timeout' | 'refused' | 'moved'

  constructor(reason: RecordsUnavailable['reason'], cause?: unknown) {
    super(`records unavailable: ${reason}`, { cause })
    this.reason = reason
  }
}

/** Facts from the store that had a tenant's records before the move. */
export interface EarlierFacts {
  readonly fence: number
  /** Bytes of the tenant's records and locks, without those of this key. */
  readonly bytes: number
  /** Locks of the current minute. */
  readonly minuteLocks: number
  /** Tombstone of a lock of this key that expired without an outcome. The lock can no longer be extended or completed. */
  readonly mark?: { readonly fence: number; readonly fingerprint: string }
}

/**
 * Error of the store that had a tenant's records before the move and writes no new ones. It has no record and no lock of this key, or only
 * the tombstone of an expired lock.
 */
export class RecordsElsewhere extends Error {
  override readonly name = 'RecordsElsewhere'
  readonly facts: EarlierFacts

  constructor(facts: EarlierFacts) {
    super('new records of the tenant are in another store')
    this.facts = facts
  }
}

/**
 * Stores records and locks. Each call is one atomic step. Calls fail within a second with RedisUnavailable or RecordsUnavailable if the
 * store does not reply, and immediately with reason `overloaded` above the maximum of concurrent calls.
 */
export interface RecordStore {
  /** Memory for long records, which tenants share. */
  readonly answers: Shares
  /** Returns the record or acquires the lock. Repeating the call with the same `lockToken` acquires only one lock. */
  acquire(input: AcquireInput): Promise<AcquireOutcome>
  /** Saves a record. Repeating the same call returns `saved` again. */
  save(input: SaveInput): Promise<SaveOutcome>
  /** Returns `none` for a lock without a record. */
  fetch(address: RecordAddress): Promise<FetchOutcome>
  /** Removes the record or, with a `lockToken`, releases the lock of this token. Returns false if there was none. */
  remove(address: RecordAddress, lockToken: string): Promise<boolean>
  /** Holds the lock for `lockMs` from now, or for its original duration if null. */
  extend(address: RecordAddress, lockToken: string, lockMs: number | null): Promise<ExtendOutcome>
}

/** Store from or to which the records of a tenant can move. */
export interface MovableRecordStore extends RecordStore {
  /** Removes the tombstone of the lock with this fence. Safe to repeat. */
  forgetMark(address: RecordAddress, fence: number): Promise<void>
}

/** Deadline of a call with all its steps. */
export const callMsMax = 900

/** Maximum bytes of long records in memory, from replies of Redis and in responses to batches. A tenant may use a quarter. */
export const longBytesMax = 64 * 1024 * 1024

/** Maximum of remembered keys of saved records, about 200 bytes each. */
export const savedKeysMax = 10_000
/** Scope and key contain no control characters, so the newline separates them unambiguously. */
export function entryKey(address: RecordAddress): string {
  return `{${address.tenantId}}:r:${address.scope}\n${address.key}`
}

/** Redis channel that announces ends of locks for which callers wait. Each message is the Redis key of a lock. */
export function wakeChannel(tenantId: TenantId): string {
  return `{${tenantId}}:wake`
}

/** The most recently added keys: at least `keysMax` / 2 and at most `keysMax`. */
export class RecentKeys<Value> {
  readonly #keysMax: number
  #young = new Map<string, Value>()
  #old = new Map<string, Value>()

  constructor(keysMax: number) {
    this.#keysMax = keysMax
  }

  get(key: string): Value | undefined {
    return this.#young.get(key) ?? this.#old.get(key)
  }

  set(key: string, value: Value): void {
    if (this.#young.size >= this.#keysMax / 2) {
      this.#old = this.#young
      this.#young = new Map()
    }
    this.#young.set(key, value)
  }

  delete(key: string): void {
    this.#young.delete(key)
    this.#old.delete(key)
  }
}

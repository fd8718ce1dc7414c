/** JSON value. */
export type Json = string | number | boolean | null | readonly Json[] | { readonly [name: string]: Json }

/** Saved response of an operation. */
export interface StoredRecord {
  /** HTTP status, 100 to 599. */
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Json
}

/**
 * Save whose success is unknown. Can be stored as JSON and passed to `complete` later, also by another process. Contains the result and the
 * token of the lock, so store it as securely as the result.
 */
export interface Pending {
  readonly scope: string
  readonly key: string
  readonly lockToken: string
  readonly ttlSeconds?: number
  readonly record: StoredRecord
}

/** Reason for the outcome `unavailable`. */
export type UnavailableReason = 'unreachable' | 'store_unavailable' | 'overloaded' | 'limit_exceeded'

/** `work` ran, or an earlier run's result is returned. */
export type Success<T> =
  /** `work` ran in this call. Its result is saved, unless `guarded` is false: then it ran without a lock, by `onUnavailable: 'run'`. */
  | { readonly kind: 'ran'; readonly value: T; readonly guarded: boolean }
  /** Result of an earlier run, or one that `onTakenOver` recovered. `work` did not run in this call. */
  | { readonly kind: 'replayed'; readonly value: T }

/** The call has no result, or it is not known whether its result is saved. */
export type Failure<T> =
  /** Another caller holds the lock. `work` did not run in this call. */
  | { readonly kind: 'busy'; readonly retryAfterMs: number }
  /** An earlier caller's lock ended without a result, and `work` did not run in this call. The earlier caller may have had the effect. */
  | { readonly kind: 'taken_over'; readonly phase: 'before' }
  /** This caller's lock ended while it worked, so another caller may have run, or runs now. */
  | { readonly kind: 'taken_over'; readonly phase: 'during' }
  /** The key was used with another fingerprint. `work` did not run in this call. */
  | { readonly kind: 'reused_key' }
  /**
   * `work` ran, but whether its result is saved is not known (`no_answer`, or `aborted` by the caller's signal), or the service refused to
   * save it (`refused`, with the service's `code` and `message`). `complete(pending)` saves it later.
   */
  | {
      readonly kind: 'unknown'
      readonly value: T
      readonly pending: Pending
      readonly reason: 'no_answer' | 'aborted' | 'refused'
      readonly code?: string
      readonly message?: string
    }
  /** No lock could be acquired. `work` did not run in this call. `cause`: the exception of `fetch`, if there was no answer. */
  | {
      readonly kind: 'unavailable'
      readonly reason: UnavailableReason
      readonly retryAfterMs: number
      readonly cause?: unknown
    }

/** Outcome of `withTransaction`: `work` ran, but it is unknown whether its transaction was committed. Call again with the same key. */
export interface UnknownCommit {
  readonly kind: 'unknown_commit'
  /** Exception of the commit. */
  readonly error: unknown
}

/** Result of `once`. */
export type Outcome<T> = Success<T> | Failure<T>

/** Name of an outcome. */
export type OutcomeKind = Outcome<unknown>['kind']

const texts: Readonly<Record<(Failure<unknown> | UnknownCommit)['kind'], string>> = {
  busy: 'another caller holds the lock of this key',
  taken_over: 'a lock of this key ended without a result, so whether the operation has happened is uncertain',
  reused_key: 'the key was used with another fingerprint: use a new key for a new operation',
  unknown: 'the operation ran, but whether its result is saved is not known: pass `pending` to complete()',
  unknown_commit: 'whether the transaction was committed is not known: call again with the same key',
  unavailable: 'no lock could be acquired, and the operation did not run: try again later',
}

/** Thrown by `unwrap` for an outcome without a known result. Also the reason of the signal of `work` after its lock was lost. */
export class LatchkeyOutcomeError<T = unknown> extends Error {
  override readonly name = 'LatchkeyOutcomeError'
  /** Not enumerable, so that a log of the error does not show the lock token and the result, which the outcome `unknown` contains. */
  declare readonly outcome: Failure<T> | UnknownCommit

  constructor(outcome: Failure<T> | UnknownCommit) {
    super(`Latchkey: ${texts[outcome.kind]} (${detailOf(outcome)})`, causeOf(outcome))
    Object.defineProperty(this, 'outcome', { value: outcome })
  }
}

function causeOf(outcome: Failure<unknown> | UnknownCommit): ErrorOptions {
  if (outcome.kind === 'unknown_commit') return { cause: outcome.error }
  return outcome.kind === 'unavailable' && outcome.cause !== undefined ? { cause: outcome.cause } : {}
}

function detailOf(outcome: Failure<unknown> | UnknownCommit): string {
  switch (outcome.kind) {
    case 'taken_over':
      return `${outcome.kind}, ${outcome.phase}`
    case 'unknown':
    case 'unavailable':
      return `${outcome.kind}, ${outcome.reason}`
    default:
      return outcome.kind
  }
}

/** Thrown for a call that the service refused, and that fails again if it is retried unchanged. */
export class LatchkeyRequestError extends Error {
  override readonly name = 'LatchkeyRequestError'
  /** HTTP status; undefined without an answer. */
  readonly status: number | undefined
  /** Error code of the service, such as `api_key_invalid`; `http_<status>` for an answer of another program, such as a proxy. */
  readonly code: string
  readonly requestId: string | undefined

  constructor(refusal: {
    readonly status?: number | undefined
    readonly code: string
    readonly message: string
    readonly requestId?: string | undefined
  }) {
    super(`Latchkey: ${refusal.message} (${refusal.code})`)
    this.status = refusal.status
    this.code = refusal.code
    this.requestId = refusal.requestId
  }
}

/** Returns the value of `ran` and `replayed`. @throws LatchkeyOutcomeError for any other outcome */
export function unwrap<T>(outcome: Outcome<T> | UnknownCommit): T {
  if (outcome.kind === 'ran' || outcome.kind === 'replayed') return outcome.value
  throw new LatchkeyOutcomeError(outcome)
}

const nothing = Symbol.for('latchkey.nothingHappened')

/**
 * Marks an error that `work` throws before it had any effect: `throw nothingHappened(new CardDeclined())`. The lock is then released, and
 * the next call runs `work`. The next call gets `takenOver` only if this call did. Returns the error itself, or an `Error` with it as
 * `cause` if it cannot be marked.
 */
export function nothingHappened(error: unknown): unknown {
  const marked = error instanceof Object ? error : new Error('The operation had no effect', { cause: error })
  const mark = { value: true, configurable: true }
  if (Reflect.defineProperty(marked, nothing, mark)) return marked
  return nothingHappened(new Error('The operation had no effect', { cause: error }))
}

/** Returns whether an error is marked by `nothingHappened`, and removes the mark. */
export function takeNothingHappened(error: unknown): boolean {
  return error instanceof Object && Object.hasOwn(error, nothing) && Reflect.deleteProperty(error, nothing)
}

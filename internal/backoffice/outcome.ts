import { parseTypeFilter } from '#internal/base/index.ts'
import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'

/** Reason why a request was refused. The problem texts are safe to show and say what to do next. */
export type Refusal =
  /** The actor lacks the right on a tenant that it sees, or on all tenants if the request covers all. */
  | { readonly kind: 'forbidden' }
  /** Object that is missing, or of a tenant that the actor may not see. The caller cannot distinguish the two cases. */
  | { readonly kind: 'notFound'; readonly problem?: string }
  /** `field` is a name in the API. With it, `problem` completes the sentence that begins with the field: "must be …". */
  | { readonly kind: 'invalid'; readonly problem: string; readonly field?: string | undefined }
  /** Current state that differs from the one that the request expects. Nothing was changed. */
  | { readonly kind: 'conflict'; readonly problem: string; readonly code?: 'provider_not_ready' }
  /** Idempotency key or id that was used with other content. Nothing was changed. */
  | { readonly kind: 'keyReused'; readonly problem: string }
  /** Too many concurrent jobs, or searches at a time or in a minute. `retryAfterMs`: default one minute. */
  | {
      readonly kind: 'tooMany'
      readonly problem: string
      readonly code: 'too_many_replays' | 'too_many_simulations' | 'too_many_searches'
      readonly retryAfterMs?: number
    }
  /**
   * Unavailable API server, tenant directory or store, or too many waiting calls (`overloaded`). The write may already be committed;
   * repeating the request unchanged is safe.
   */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number; readonly code?: 'overloaded' }
  /** Secrets that the key ring cannot decrypt. Nothing was done. */
  | { readonly kind: 'secretsUnreadable'; readonly retryAfterMs: number }

/** Result of a use case. */
export type Outcome<Value> = { readonly kind: 'ok'; readonly value: Value } | Refusal

export function ok<Value>(value: Value): { readonly kind: 'ok'; readonly value: Value } {
  return { kind: 'ok', value }
}

export const notFound = { kind: 'notFound' } as const
export const forbidden = { kind: 'forbidden' } as const
export const secretsUnreadable = { kind: 'secretsUnreadable', retryAfterMs: 30_000 } as const

/** Refuses an invalid request. For `field` see `Refusal`. */
export function invalid(problem: string, field?: string): Extract<Refusal, { kind: 'invalid' }> {
  return { kind: 'invalid', problem, ...(field !== undefined && { field }) }
}

/** Refuses a time range that ends before it starts. */
export const invalidRange = invalid('must be before the end', 'from')

const invalidType = invalid(
  'must be a complete type such as payment.failed, or a family of types such as payment.*',
  'type',
)

/** Returns the filter with its type in lower case, as stored types are. Refuses an asterisk that is not at the end. */
export function readTypeFilter<Filter extends { readonly type?: string | undefined }>(
  filter: Filter,
): Extract<Outcome<Filter>, { kind: 'ok' | 'invalid' }> {
  if (filter.type === undefined) return ok(filter)
  const type = parseTypeFilter(filter.type)
  return type === undefined ? invalidType : ok({ ...filter, type })
}

export function conflict(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { kind: 'conflict', problem }
}

/** Refuses a delivery to a tenant without a callback. Nothing was queued. */
export const noCallback = conflict(
  'The tenant has no callback, so nothing can be delivered: pull its events with a subscription, or set spec.callback',
)

/** Refuses a request whose tenant takes no calls of the provider. */
export function providerNotReady(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { ...conflict(problem), code: 'provider_not_ready' }
}

/** Refuses an idempotency key, or an id of usage, that was already used with different content. */
export function keyReused(problem: string): Extract<Refusal, { kind: 'keyReused' }> {
  return { kind: 'keyReused', problem }
}

const retryAfterMs = 1_000
export const unavailable = { kind: 'unavailable', retryAfterMs } as const

/** Refuses while too many calls of a tenant wait. Nothing was done. */
export const overloaded = { ...unavailable, code: 'overloaded' } as const

/** Runs work, and returns a refusal if a store is unavailable. @throws on bugs */
export async function attempt<Value>(
  onTrouble: (cause: unknown) => void,
  work: () => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  try {
    return await work()
  } catch (cause) {
    if (!isStoreAway(cause)) throw cause
    onTrouble(cause)
    return unavailable
  }
}

/** Returns true if an error means that a store is unavailable; false for a bug. */
export function isStoreAway(cause: unknown): boolean {
  return cause instanceof RedisUnavailable || !isMistake(cause)
}

/** Removes fields with the value undefined, for types whose optional fields must be absent. */
export function defined<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }
}

import { parseTypeFilter } from '#internal/base/index.ts'
import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'

/** Reason why a request was refused. The problem texts are safe to show and say what to do next. */
export type Refusal =
  /** The actor sees the tenant but lacks the right, or the request covers all tenants and the actor does not see all of them. */
  | { readonly kind: 'forbidden' }
  /** The object is missing, or belongs to a tenant that the actor may not see. The caller cannot distinguish the two cases. */
  | { readonly kind: 'notFound'; readonly problem?: string }
  /** With `field`, its name in the API, `problem` completes the sentence that begins with the field: "must be …". */
  | { readonly kind: 'invalid'; readonly problem: string; readonly field?: string | undefined }
  /** The current state differs from the state that the request expects. Nothing was changed. */
  | { readonly kind: 'conflict'; readonly problem: string; readonly code?: 'provider_not_ready' }
  /** The idempotency key or the id of the request was used with other content. Nothing was changed. */
  | { readonly kind: 'keyReused'; readonly problem: string }
  /** The maximum number of concurrent jobs, or of searches at a time or in a minute, is reached. `retryAfterMs`: default one minute. */
  | {
      readonly kind: 'tooMany'
      readonly problem: string
      readonly code: 'too_many_replays' | 'too_many_simulations' | 'too_many_searches'
      readonly retryAfterMs?: number
    }
  /**
   * The API server, the tenant directory or a store is unavailable, or too many calls wait (`overloaded`). The write may already be
   * committed; repeating the request unchanged is safe.
   */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number; readonly code?: 'overloaded' }
  /** The key ring cannot decrypt the secrets that the request needs. Nothing was done. */
  | { readonly kind: 'secretsUnreadable'; readonly retryAfterMs: number }

/** Result of a use case. */
export type Outcome<Value> = { readonly kind: 'ok'; readonly value: Value } | Refusal

/** Returns the outcome of a use case that succeeded. */
export function ok<Value>(value: Value): { readonly kind: 'ok'; readonly value: Value } {
  return { kind: 'ok', value }
}

/** Refusal for an object that is missing or that the actor may not see. */
export const notFound = { kind: 'notFound' } as const
/** Refusal for an actor that sees the object but lacks the right. */
export const forbidden = { kind: 'forbidden' } as const
/** Refusal while the key ring cannot decrypt a tenant's secrets. */
export const secretsUnreadable = { kind: 'secretsUnreadable', retryAfterMs: 30_000 } as const

/** Returns the refusal of an invalid request. `field`: see `Refusal`. */
export function invalid(problem: string, field?: string): Extract<Refusal, { kind: 'invalid' }> {
  return { kind: 'invalid', problem, ...(field !== undefined && { field }) }
}

/** Refusal of a time range that ends before it starts. */
export const invalidRange = invalid('must be before the end', 'from')

const invalidType = invalid('must be a whole type, or a family of types such as payment.*', 'type')

/** Returns a filter with its type in lower case, as types are, or the refusal of an asterisk elsewhere than at the end. Pure. */
export function readTypeFilter<Filter extends { readonly type?: string | undefined }>(
  filter: Filter,
): Extract<Outcome<Filter>, { kind: 'ok' | 'invalid' }> {
  if (filter.type === undefined) return ok(filter)
  const type = parseTypeFilter(filter.type)
  return type === undefined ? invalidType : ok({ ...filter, type })
}

/** Returns the refusal of a request that expects a different state. */
export function conflict(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { kind: 'conflict', problem }
}

/** Refusal of a delivery to a tenant without a callback. Nothing was queued. */
export const noCallback = conflict(
  'The tenant has no callback, so nothing can be delivered: pull its events with a subscription, or set spec.callback',
)

/** Returns the refusal of a request whose tenant takes no calls of the provider. */
export function providerNotReady(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { ...conflict(problem), code: 'provider_not_ready' }
}

/** Returns the refusal of an idempotency key, or another id of a request, that was used with other content. */
export function keyReused(problem: string): Extract<Refusal, { kind: 'keyReused' }> {
  return { kind: 'keyReused', problem }
}

const retryAfterMs = 1_000
/** Refusal while a store is unavailable. */
export const unavailable = { kind: 'unavailable', retryAfterMs } as const

/** Refusal while too many calls of a tenant wait. Nothing was done. */
export const overloaded = { ...unavailable, code: 'overloaded' } as const

/** Runs a use case and returns a refusal if a store is unavailable. @throws on bugs */
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

/** Returns whether an error means that a store is unavailable, rather than a bug. */
export function isStoreAway(cause: unknown): boolean {
  return cause instanceof RedisUnavailable || !isMistake(cause)
}

/** Removes fields with the value undefined, for types whose optional fields must be absent and not undefined. */
export function defined<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }
}

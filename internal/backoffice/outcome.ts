import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'

/** Reason why a request was refused. Problem texts are safe to show and say what to do next. */
export type Refusal =
  /** The actor sees the tenant but lacks the right; or the request covers all tenants and the actor does not see all. */
  | { readonly kind: 'forbidden' }
  /** Missing, or owned by a tenant that the actor may not see. Both look the same. */
  | { readonly kind: 'notFound' }
  | { readonly kind: 'invalid'; readonly problem: string }
  /** The state differs from the one that the request expects. Nothing was changed. */
  | { readonly kind: 'conflict'; readonly problem: string }
  /** A bound on concurrent jobs is reached. */
  | { readonly kind: 'tooMany'; readonly problem: string }
  /** The API server, the directory or a store does not answer. A write may have been committed: repeat it unchanged. */
  | { readonly kind: 'unavailable'; readonly retryAfterMs: number }
  /** The key ring cannot decrypt the secrets that the request needs. Nothing was done. */
  | { readonly kind: 'secretsUnreadable'; readonly retryAfterMs: number }

/** Result of a use case. */
export type Outcome<Value> = { readonly kind: 'ok'; readonly value: Value } | Refusal

/** Result of an idempotent write: `isNew` is false for a repeat, which wrote nothing. */
export interface Done {
  readonly isNew: boolean
}

/** Wraps the value of a use case that succeeded. */
export function ok<Value>(value: Value): { readonly kind: 'ok'; readonly value: Value } {
  return { kind: 'ok', value }
}

/** Refusal for a missing object and for one that the actor may not see. */
export const notFound = { kind: 'notFound' } as const
/** Refusal for an actor that sees the object and lacks the right. */
export const forbidden = { kind: 'forbidden' } as const
/** Refusal while the key ring cannot decrypt a tenant's secrets. */
export const secretsUnreadable = { kind: 'secretsUnreadable', retryAfterMs: 30_000 } as const

/** Makes the refusal of an invalid request. */
export function invalid(problem: string): Extract<Refusal, { kind: 'invalid' }> {
  return { kind: 'invalid', problem }
}

/** Makes the refusal of a request that meets another state than it expects. */
export function conflict(problem: string): Extract<Refusal, { kind: 'conflict' }> {
  return { kind: 'conflict', problem }
}

const retryAfterMs = 1_000
/** Refusal while a store does not answer. */
export const unavailable = { kind: 'unavailable', retryAfterMs } as const

/** Runs a use case and turns an unavailable store into an outcome. @throws bugs */
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

/** Distinguishes an unavailable store from a bug. */
export function isStoreAway(cause: unknown): boolean {
  return cause instanceof RedisUnavailable || !isMistake(cause)
}

/** Drops the members that are undefined, for types that take absent members only. */
export function defined<Fields extends object>(
  fields: Fields,
): { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> } {
  const entries = Object.entries(fields).filter(([, value]) => value !== undefined)
  return Object.fromEntries(entries) as { [Name in keyof Fields]?: Exclude<Fields[Name], undefined> }
}

import { isMistake, RedisUnavailable } from '#internal/storage/index.ts'
import type { Outcome } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'

const retryAfterMs = 1_000

/** Runs a use case: a store that is away is an outcome. @throws what is a bug */
export async function attempt<Value>(
  { onTrouble }: Pick<BackofficeParts, 'onTrouble'>,
  work: () => Promise<Outcome<Value>>,
): Promise<Outcome<Value>> {
  try {
    return await work()
  } catch (cause) {
    if (!isStoreAway(cause)) throw cause
    onTrouble(cause)
    return { kind: 'unavailable', retryAfterMs }
  }
}

/** Whether an error is a store that is away, rather than a bug. */
export function isStoreAway(cause: unknown): boolean {
  return cause instanceof RedisUnavailable || !isMistake(cause)
}

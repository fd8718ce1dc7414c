import { RedisUnavailable, sqlErrorOf } from '#internal/storage/index.ts'
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

/** Data that a statement cannot take, and statements that are none, are mistakes of ours; what else Postgres says is that it is away. */
const mistakes = /^(22|23|42)/

/** Tells a store that is away from a bug. */
export function isStoreAway(cause: unknown): boolean {
  if (cause instanceof RedisUnavailable) return true
  if (!(cause instanceof Error)) return false
  const isBug =
    cause instanceof TypeError ||
    cause instanceof RangeError ||
    cause instanceof ReferenceError ||
    cause instanceof SyntaxError
  return !isBug && !mistakes.test(sqlErrorOf(cause)?.code ?? '')
}

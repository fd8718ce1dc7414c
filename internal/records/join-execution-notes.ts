import {
  acquiredAtMsOf,
  type ExecutionAddress,
  type ExecutionFacts,
  type ExecutionNote,
} from './execution.ts'

/** What a note alone tells of an execution. */
export function factsOf({ scope, key }: ExecutionAddress, note: ExecutionNote): ExecutionFacts {
  const { fence, kind } = note
  const nothing = { heldUntilMs: null, extendedAtMs: null, endedAtMs: null, status: null }
  switch (kind) {
    case 'acquired':
      return {
        ...nothing,
        fence,
        scope,
        key,
        ending: 'open',
        heldUntilMs: acquiredAtMsOf(fence) + note.heldMs,
      }
    case 'extended': {
      const heldUntilMs = note.atMs + note.heldMs
      return { ...nothing, fence, scope, key, ending: 'open', heldUntilMs, extendedAtMs: note.atMs }
    }
    case 'completed':
      return { ...nothing, fence, scope, key, ending: kind, endedAtMs: note.atMs, status: note.status }
    case 'released':
    case 'taken_over':
      return { ...nothing, fence, scope, key, ending: kind, endedAtMs: note.atMs }
    default:
      return note satisfies never
  }
}

/**
 * Joins what is known of one execution: of its holdings the latest, of its ends the earliest. In any order, grouping and repetition
 * the same facts give the same; `write-executions.ts` says it again in SQL.
 */
export function joinFacts(one: ExecutionFacts, other: ExecutionFacts): ExecutionFacts {
  const { heldUntilMs, extendedAtMs } = compareHolding(one, other) >= 0 ? one : other
  const { endedAtMs, ending, status } = compareEnd(one, other) <= 0 ? one : other
  const { fence, scope, key } = one
  return { fence, scope, key, heldUntilMs, extendedAtMs, endedAtMs, ending, status }
}

const never = Number.NEGATIVE_INFINITY
const notYet = Number.POSITIVE_INFINITY

function compareHolding(one: ExecutionFacts, other: ExecutionFacts): number {
  return (
    compare(one.extendedAtMs ?? never, other.extendedAtMs ?? never) ||
    compare(one.heldUntilMs ?? never, other.heldUntilMs ?? never)
  )
}

function compareEnd(one: ExecutionFacts, other: ExecutionFacts): number {
  return (
    compare(one.endedAtMs ?? notYet, other.endedAtMs ?? notYet) ||
    compare(one.ending, other.ending) ||
    compare(one.status ?? notYet, other.status ?? notYet)
  )
}

function compare<T extends number | string>(one: T, other: T): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}

import { type AcquireOutcome, type RecordAddress, statusOf } from './record.ts'
import type { lockHistory } from './tables.ts'

/**
 * Change of a lock, for its history. `fence`: the lock's fencing token, which is also the time of its acquisition in microseconds. `atMs`:
 * by Redis' clock. `heldMs`: remaining duration of the lock after the change. `status`: HTTP status of the saved response.
 */
export type LockNote =
  | { readonly kind: 'acquired'; readonly fence: number; readonly heldMs: number }
  | { readonly kind: 'extended'; readonly fence: number; readonly atMs: number; readonly heldMs: number }
  | { readonly kind: 'completed'; readonly fence: number; readonly atMs: number; readonly status: number }
  | { readonly kind: 'released' | 'taken_over'; readonly fence: number; readonly atMs: number }

/** Records a change of a lock. Never blocks, never throws. A repeated note changes nothing. */
export type NoteLock = (address: RecordAddress, note: LockNote) => void

type Reply = readonly unknown[]

/** Records an acquisition, and the end of the lock that was taken over, if any. A re-entry by the same attempt counts as an extension. */
export function noteLocked(
  note: NoteLock,
  address: RecordAddress,
  { fence, expiresInMs: heldMs }: Extract<AcquireOutcome, { kind: 'locked' }>,
  reply: Reply,
): void {
  // `endedFence` is present only if the key was locked before.
  const [, , , , , reenteredAtMs, endedFence] = reply
  if (reenteredAtMs !== undefined && reenteredAtMs !== 0)
    return note(address, { kind: 'extended', fence, atMs: Number(reenteredAtMs), heldMs })
  note(address, { kind: 'acquired', fence, heldMs })
  if (endedFence === undefined) return
  note(address, { kind: 'taken_over', fence: Number(endedFence), atMs: acquiredAtMsOf(fence) })
}

/** Records the end of a lock that is taken over in the store to which the tenant's records have moved. */
export function noteEnded(note: NoteLock, address: RecordAddress, reply: Reply): void {
  const [kind, , , , fence, , atMs] = reply
  if (kind === 'elsewhere' && atMs !== undefined)
    note(address, { kind: 'taken_over', fence: Number(fence), atMs: Number(atMs) })
}

export function noteSaved(
  note: NoteLock,
  address: RecordAddress,
  record: string,
  [, fence, atMs]: Reply,
): void {
  note(address, {
    kind: 'completed',
    fence: Number(fence),
    atMs: Number(atMs),
    status: statusOf(record),
  })
}

export function noteRemoved(note: NoteLock, address: RecordAddress, [, , fence, atMs]: Reply): void {
  if (fence !== undefined) note(address, { kind: 'released', fence: Number(fence), atMs: Number(atMs) })
}

export function noteExtended(note: NoteLock, address: RecordAddress, reply: Reply): void {
  const [, fence, heldMs, atMs] = reply
  note(address, { kind: 'extended', fence: Number(fence), atMs: Number(atMs), heldMs: Number(heldMs) })
}

/** States of a lock. `expired`: its time ran out without an outcome. Its holder can still save a record, which completes the lock. */
export const lockStates = ['running', 'completed', 'released', 'taken_over', 'expired'] as const
/** One of `lockStates`. */
export type LockState = (typeof lockStates)[number]

/** Outcomes of a lock. `open`: no outcome is known. */
export const endings = ['open', 'completed', 'released', 'taken_over'] as const
export type Ending = (typeof endings)[number]

/** Known facts of a lock, possibly incomplete. */
export type LockFacts = Readonly<Omit<typeof lockHistory.$inferSelect, 'tenantId' | 'expiresOn'>>

/** History of a lock. Times are in ms since the epoch, by Redis' clock. */
export interface LockHistoryEntry extends Omit<LockFacts, 'ending'> {
  readonly state: LockState
  readonly acquiredAtMs: number
  /** Duration until the end; null while the lock has not ended. */
  readonly durationMs: number | null
}

export function acquiredAtMsOf(fence: number): number {
  return Math.floor(fence / 1000)
}

/** Derives the state and durations of a lock. Durations are never negative, even if the clock went back. */
export function describeLock({ ending, ...facts }: LockFacts, nowMs: number): LockHistoryEntry {
  const { fence, expiresAtMs, endedAtMs } = facts
  const acquiredAtMs = acquiredAtMsOf(fence)
  const durationMs = endedAtMs === null ? null : Math.max(0, endedAtMs - acquiredAtMs)
  const openState = expiresAtMs !== null && expiresAtMs > nowMs ? 'running' : 'expired'
  return { ...facts, state: ending === 'open' ? openState : ending, acquiredAtMs, durationMs }
}

export function factsOf({ scope, key }: RecordAddress, note: LockNote): LockFacts {
  const { fence } = note
  const facts = { fence, scope, key, expiresAtMs: null, extendedAtMs: null, endedAtMs: null, status: null }
  switch (note.kind) {
    case 'acquired':
      return { ...facts, ending: 'open', expiresAtMs: acquiredAtMsOf(fence) + note.heldMs }
    case 'extended':
      return { ...facts, ending: 'open', expiresAtMs: note.atMs + note.heldMs, extendedAtMs: note.atMs }
    case 'completed':
      return { ...facts, ending: note.kind, endedAtMs: note.atMs, status: note.status }
    default:
      return { ...facts, ending: note.kind, endedAtMs: note.atMs }
  }
}

/**
 * Joins facts of one lock: the latest extension and the earliest end win. Commutative, associative and idempotent. The upsert in
 * `lock-history-recorder.ts` does the same in SQL.
 */
export function joinFacts(one: LockFacts, other: LockFacts): LockFacts {
  const { expiresAtMs, extendedAtMs } = isLess(holdingOf(one), holdingOf(other)) ? other : one
  const { endedAtMs, ending, status } = isLess(endOf(other), endOf(one)) ? other : one
  const { fence, scope, key } = one
  return { fence, scope, key, expiresAtMs, extendedAtMs, endedAtMs, ending, status }
}

type Rank = readonly (number | string)[]

const holdingOf = ({ extendedAtMs, expiresAtMs }: LockFacts): Rank => [
  extendedAtMs ?? Number.NEGATIVE_INFINITY,
  expiresAtMs ?? Number.NEGATIVE_INFINITY,
]
const endOf = ({ endedAtMs, ending, status }: LockFacts): Rank => [
  endedAtMs ?? Number.POSITIVE_INFINITY,
  ending,
  status ?? Number.POSITIVE_INFINITY,
]

/** Compares by the first element that differs. */
function isLess(one: Rank, other: Rank): boolean {
  const at = one.findIndex((value, nth) => value !== other[nth])
  return at >= 0 && (one[at] ?? 0) < (other[at] ?? 0)
}

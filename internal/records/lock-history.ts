import type { TenantId } from '#internal/base/index.ts'

/** Address of a lock. */
export interface LockAddress {
  readonly tenantId: TenantId
  readonly scope: string
  readonly key: string
}

/**
 * Something that happened to a lock, told by whoever heard of it. `fence`: its fencing token, as the microsecond at which it was
 * acquired. `atMs`: when, by Redis' clock. `heldMs`: how long it is held from then on.
 */
export type LockNote =
  | { readonly kind: 'acquired'; readonly fence: number; readonly heldMs: number }
  | { readonly kind: 'extended'; readonly fence: number; readonly atMs: number; readonly heldMs: number }
  /** `status`: that of the saved response. */
  | { readonly kind: 'completed'; readonly fence: number; readonly atMs: number; readonly status: number }
  | { readonly kind: 'released' | 'taken_over'; readonly fence: number; readonly atMs: number }

/** Takes note of what happened to a lock: cheap, never waits, never throws. Repeating a note changes nothing. */
export type NoteLock = (address: LockAddress, note: LockNote) => void

/** States of a lock in its history. `expired`: its time is over without a known end; the late holder may still complete it. */
export const lockStates = ['running', 'completed', 'released', 'taken_over', 'expired'] as const
/** State of a lock in its history. */
export type LockState = (typeof lockStates)[number]

/** End of a lock; `open` without one. */
export type Ending = 'open' | 'completed' | 'released' | 'taken_over'

/** Known facts of a lock, possibly partial. */
export interface LockFacts {
  readonly fence: number
  readonly scope: string
  readonly key: string
  /** null where only the end was heard of. */
  readonly heldUntilMs: number | null
  /** Time of the last extension or re-entry. */
  readonly extendedAtMs: number | null
  readonly endedAtMs: number | null
  readonly ending: Ending
  /** The saved response's status. */
  readonly status: number | null
}

/** A lock from its acquisition to its end, as people see it. Times in ms since the epoch, by Redis' clock. */
export interface LockHistoryEntry {
  readonly scope: string
  readonly key: string
  readonly fence: number
  readonly state: LockState
  readonly acquiredAtMs: number
  /** Until when the lock was held at last; null where only the end was heard of. */
  readonly heldUntilMs: number | null
  readonly extendedAtMs: number | null
  readonly endedAtMs: number | null
  /** null while it has not ended. */
  readonly durationMs: number | null
  /** The saved response's status. */
  readonly status: number | null
}

/** The millisecond at which a lock was acquired. */
export function acquiredAtMsOf(fence: number): number {
  return Math.floor(fence / 1000)
}

/** Describes a lock at a time. A clock that went back gives no negative duration. */
export function describeLock(facts: LockFacts, nowMs: number): LockHistoryEntry {
  const { fence, scope, key, heldUntilMs, extendedAtMs, endedAtMs, status } = facts
  const acquiredAtMs = acquiredAtMsOf(fence)
  const durationMs = endedAtMs === null ? null : Math.max(0, endedAtMs - acquiredAtMs)
  const state = stateOf(facts, nowMs)
  return {
    scope,
    key,
    fence,
    state,
    acquiredAtMs,
    heldUntilMs,
    extendedAtMs,
    endedAtMs,
    durationMs,
    status,
  }
}

function stateOf({ ending, heldUntilMs }: LockFacts, nowMs: number): LockState {
  if (ending !== 'open') return ending
  return heldUntilMs !== null && heldUntilMs > nowMs ? 'running' : 'expired'
}

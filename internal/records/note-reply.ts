import type { NoteLock } from './lock-history.ts'
import { type AcquireOutcome, statusOf } from './record.ts'
import type { RecordAddress, SaveInput } from './store.ts'

type Reply = readonly unknown[]
type Locked = Extract<AcquireOutcome, { kind: 'locked' }>

/** Tells the history of a lock that was taken, and of the one that it was taken from; or that its own attempt entered it again. */
export function noteLocked(
  note: NoteLock,
  address: RecordAddress,
  { fence, expiresInMs }: Locked,
  reply: Reply,
): void {
  // Neither is there but for a lock that was there before.
  const [, , , , , enteredAgainAtMs, endedFence] = reply
  if (enteredAgainAtMs !== undefined && enteredAgainAtMs !== 0) {
    note(address, { kind: 'extended', fence, atMs: Number(enteredAgainAtMs), heldMs: expiresInMs })
    return
  }
  note(address, { kind: 'acquired', fence, heldMs: expiresInMs })
  if (endedFence === undefined) return
  note(address, { kind: 'taken_over', fence: Number(endedFence), atMs: Math.floor(fence / 1000) })
}

/** Tells the history of a lock that ended with a result. */
export function noteSaved(note: NoteLock, input: SaveInput, [, fence, atMs]: Reply): void {
  const status = statusOf(input.record)
  note(input, { kind: 'completed', fence: Number(fence), atMs: Number(atMs), status })
}

/** Tells the history of a lock that was given back; a record that was removed is none. */
export function noteRemoved(note: NoteLock, address: RecordAddress, [, , fence, atMs]: Reply): void {
  if (fence !== undefined) note(address, { kind: 'released', fence: Number(fence), atMs: Number(atMs) })
}

/** Tells the history of a lock that lives on. */
export function noteExtended(note: NoteLock, address: RecordAddress, reply: Reply): void {
  const [, fence, heldMs, atMs] = reply
  note(address, { kind: 'extended', fence: Number(fence), atMs: Number(atMs), heldMs: Number(heldMs) })
}

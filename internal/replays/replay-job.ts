import { createEventId, idPattern } from '#internal/base/index.ts'
import type { EventFilter, EventState, ReplayFate } from '#internal/events/index.ts'

/** Which events are replayed: those that all of it applies to, of any state but `accepted`. */
export interface ReplayFilter extends Omit<EventFilter, 'state'> {
  readonly state?: Exclude<EventState, 'accepted'>
  readonly fromMs: number
  /** Default, and latest: when the replay is started. */
  readonly toMs?: number
}

/** `queued`: not begun; the last three are ends. */
export const replayStates = ['queued', 'running', 'completed', 'cancelled', 'failed'] as const
/** Where a replay stands. */
export type ReplayState = (typeof replayStates)[number]

/** How many events: `count` of them, or at least so many. */
export interface ReplayCount {
  readonly count: number
  readonly isExact: boolean
}

/** A replay's id: `rpl_` and 26 characters. Sorts by time of its start. */
export type ReplayId = string & { readonly __brand: 'ReplayId' }

/** A replay of all events of a filter that were received before it was started. */
export interface ReplayJob {
  readonly id: ReplayId
  readonly filter: ReplayFilter
  readonly ratePerSecond: number
  readonly requestedBy: string
  readonly state: ReplayState
  /** What matched when it was started. */
  readonly total: ReplayCount
  readonly queuedCount: number
  /** Events that matched and got no delivery cycle, by cause. */
  readonly skipped: Readonly<Partial<Record<Exclude<ReplayFate, 'queued'>, number>>>
  /** Everything up to this one has been looked at. */
  readonly examinedTo: string | null
  /** Stands still until more of the tenant's replayed and retried deliveries have been made. */
  readonly isWaiting: boolean
  /** Why it failed. */
  readonly failedCause: string | null
  readonly createdAtMs: number
  readonly startedAtMs: number | null
  readonly endedAtMs: number | null
}

/** A row of `jobColumns`. */
export type JobRow = [
  id: ReplayId,
  filter: ReplayFilter,
  ratePerSecond: number,
  requestedBy: string,
  state: ReplayState,
  count: number,
  isExact: boolean,
  queuedCount: number,
  skipped: ReplayJob['skipped'],
  examinedTo: string | null,
  isWaiting: boolean,
  failedCause: string | null,
  createdAtMs: number,
  startedAtMs: number | null,
  endedAtMs: number | null,
]

const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::bigint`

/** What is selected of replays for `jobOf`. */
export const jobColumns = `id, filter, rate_per_second, requested_by, state, total_count, total_is_exact, queued_count, skipped,
  examined_to, is_waiting, failed_cause, ${ms('created_at')}, ${ms('started_at')}, ${ms('ended_at')}`

/** Makes a job of its row. Pure. */
export function jobOf(row: JobRow): ReplayJob {
  const [id, filter, ratePerSecond, requestedBy, state, count, isExact, queuedCount, skipped] = row
  const [, , , , , , , , , examinedTo, isWaiting, failedCause, createdAtMs, startedAtMs, endedAtMs] = row
  return {
    ...{ id, filter, ratePerSecond, requestedBy, state, total: { count, isExact }, queuedCount, skipped },
    ...{ examinedTo, isWaiting, failedCause, createdAtMs, startedAtMs, endedAtMs },
  }
}

/** Makes the id of a replay that is started at a time. */
export function createReplayId(nowMs: number): ReplayId {
  return createEventId(nowMs, 0).replace('evt_', 'rpl_') as ReplayId
}

const replayIdForm = new RegExp(idPattern('rpl'))

/** Reads a replay's id from text; undefined for anything else, also from outside. */
export function parseReplayId(text: string): ReplayId | undefined {
  return replayIdForm.test(text) ? (text as ReplayId) : undefined
}

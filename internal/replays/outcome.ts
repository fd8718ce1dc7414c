import type { EventId } from '#internal/base/index.ts'
import { rangeOf, scanEvents } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { ReplayId } from './job.ts'

/** Outcome of the deliveries of the first events that a replay queued. */
export interface ReplayOutcome {
  /** Number of events that the outcome covers, at most 1 000. */
  readonly examinedCount: number
  readonly deliveredCount: number
  readonly failedCount: number
  readonly pendingCount: number
  /** Events that were replayed once more since, or deleted. */
  readonly otherCount: number
}

/** Maximum number of events whose outcome is read. One scan reads as many events by their ids. */
export const outcomeEventsMax = 1_000

/** Formats a queued event for the column `queued`. Pure. */
export function queuedText({ id, cycle }: { readonly id: EventId; readonly cycle: number }): string {
  return `${id}:${cycle}`
}

/** Reads what became of the first events that a replay queued. Requires a pool with `eventReadSettings`. @throws errors of Postgres */
export async function readReplayOutcome(pool: Pool, id: ReplayId, nowMs: number): Promise<ReplayOutcome> {
  const { rows } = await pool.query<{ queued: readonly string[] }>({
    name: 'read_replay_outcome',
    text: 'SELECT queued FROM replays WHERE id = $1',
    values: [id],
  })
  const cycles = new Map(
    (rows[0]?.queued ?? []).map((text) => {
      const [eventId = '', cycle] = text.split(':')
      return [eventId as EventId, Number(cycle)] as const
    }),
  )
  const examinedCount = cycles.size
  const counts = { processed: 0, delivery_failed: 0, accepted: 0, verified: 0 }
  if (examinedCount > 0) {
    const filter = { ids: [...cycles.keys()] }
    const range = rangeOf(filter, nowMs)
    const bounds = { rowsMax: outcomeEventsMax, examinedMax: outcomeEventsMax }
    const { events } = await scanEvents(pool, { filter, range, order: 'oldest', ...bounds })
    for (const { id: eventId, cycle, state } of events) if (cycles.get(eventId) === cycle) counts[state] += 1
  }
  const [deliveredCount, failedCount, pendingCount] = [
    counts.processed,
    counts.delivery_failed,
    counts.accepted,
  ]
  const otherCount = examinedCount - deliveredCount - failedCount - pendingCount
  return { examinedCount, deliveredCount, failedCount, pendingCount, otherCount }
}

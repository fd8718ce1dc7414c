import { lastExpiredDay, type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/** All columns of failed_events, which have the names of those of events that they repeat. */
export const failedEventColumns = `id, tenant_id, expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
    payload_expires_on, cycle, completed_at`

/**
 * SQL that removes the entries of events that begin another delivery cycle, to stand in a WITH after `revived`, which has their `id`. By
 * keys in any plan, as completions do; `failed_events_id` is there for it. Sees what stood there when its statement began. Repeating it finds none.
 */
export const removeRevivedText = 'DELETE FROM failed_events WHERE id = ANY(ARRAY(SELECT id FROM revived))'

/**
 * Removes what lists show of failed events whose day has come, at most 5 000; no list shows them since. By the index over their
 * days. What another process removes at this moment is passed by, so repeating it is safe. @throws whatever Postgres throws
 */
export function forgetFailedEvents(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'failed_events', lastDay: lastExpiredDay(nowMs) })
}

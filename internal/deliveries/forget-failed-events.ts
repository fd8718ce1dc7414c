import { lastExpiredDay, type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/**
 * Removes what lists show of failed events whose day has come, at most 5 000; no list shows them since. By the index over their
 * days. What another process removes at this moment is passed by, so repeating it is safe. @throws whatever Postgres throws
 */
export function forgetFailedEvents(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'failed_events', until: { lastDay: lastExpiredDay(nowMs) } })
}

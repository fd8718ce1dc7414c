import { lastExpiredDay, type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/**
 * Removes dedupe keys whose day has come, at most 5 000: whatever comes again after that is another event. By the index over
 * their days. What another process removes at this moment is passed by, so repeating it is safe. @throws whatever Postgres throws
 */
export function forgetDedupeKeys(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'dedupe_keys', lastDay: lastExpiredDay(nowMs) })
}

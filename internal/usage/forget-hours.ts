import { type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/** A month can be compared with that of the year before. */
const keptMs = 400 * 86_400_000

/**
 * Removes usage of hours over 400 days ago, at most 5 000 rows, by the index over their hours. No limit looks back further than a
 * month. Repeating it is safe. @throws whatever Postgres throws
 */
export function forgetHours(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'usage_hourly', before: new Date(nowMs - keptMs) })
}

import type { Pool, RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 5_000
/** A month can be compared with that of the year before. */
const keptMs = 400 * 86_400_000

/**
 * Removes usage of hours over 400 days ago, at most 5 000 rows, by the index over their hours. No limit looks back further than a
 * month. Repeating it is safe. @throws whatever Postgres throws
 */
export async function forgetHours(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'usage-forget-hours',
    text: `DELETE FROM usage_hourly WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM usage_hourly WHERE hour < $1 ORDER BY hour LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    values: [new Date(nowMs - keptMs)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

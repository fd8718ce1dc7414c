import { lastExpiredDay, type Pool, type RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 5_000

/**
 * Removes dedupe keys whose day has come, at most 5 000: whatever comes again after that is another event. By the index over
 * their days. What another process removes at this moment is passed by, so repeating it is safe. @throws whatever Postgres throws
 */
export async function forgetDedupeKeys(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'forget_dedupe_keys',
    text: `DELETE FROM dedupe_keys WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM dedupe_keys WHERE expires_on <= $1::date ORDER BY expires_on LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    values: [lastExpiredDay(nowMs)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

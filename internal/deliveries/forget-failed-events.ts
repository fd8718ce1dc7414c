import { lastExpiredDay, type Pool, type RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 5_000

/**
 * Removes what lists show of failed events whose day has come, at most 5 000; no list shows them since. By the index over their
 * days. What another process removes at this moment is passed by, so repeating it is safe. @throws whatever Postgres throws
 */
export async function forgetFailedEvents(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'forget_failed_events',
    text: `DELETE FROM failed_events WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM failed_events WHERE expires_on <= $1::date ORDER BY expires_on LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    values: [lastExpiredDay(nowMs)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

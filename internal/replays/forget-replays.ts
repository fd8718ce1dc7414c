import type { Pool, RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 1_000
/** As long as any event is kept: of those that it queued none is there any more. */
const keptMs = 90 * 86_400_000

/**
 * Removes replays that ended over 90 days ago, at most 1 000 of the oldest, with their idempotency keys. By the key, which is the order of their
 * beginnings; one that is worked on has no end. Repeating it is safe. @throws whatever Postgres throws
 */
export async function forgetReplays(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'forget_replays',
    text: `DELETE FROM replays WHERE id = ANY(ARRAY(
      SELECT id FROM (SELECT id, ended_at FROM replays ORDER BY id LIMIT ${rowsMax}) oldest WHERE ended_at < $1))`,
    values: [new Date(nowMs - keptMs)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

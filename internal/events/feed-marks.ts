import { type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'
import { type FeedPosition, feedStart } from './feed.ts'
import type { Queryable } from './list-source.ts'

/** Maximum lead of a receiving process's clock over that of Postgres. A process with a greater lead refuses providers' calls as too old. */
const clockAheadMs = 300_000
/** Time for which marks are kept: longer than events, which are kept for at most 255 days. */
const keptMs = 256 * 86_400_000

/**
 * Records the number of the next transaction, at most once in half a minute over all processes. Returns `went_back` if the numbers are
 * lower than earlier ones, as after the restore of a dump into another cluster of Postgres; marks with higher numbers are then removed.
 * @throws errors of Postgres
 */
export async function markFeed(pool: Pool): Promise<'marked' | 'recent' | 'went_back'> {
  const { rows } = await pool.query<{ isRecent: boolean; isAhead: boolean }>(
    `SELECT at > now() - interval '30 s' AS "isRecent", transaction > pg_snapshot_xmax(pg_current_snapshot()) AS "isAhead"
     FROM feed_marks ORDER BY at DESC LIMIT 1`,
  )
  const [latest] = rows
  if (latest?.isAhead)
    await pool.query('DELETE FROM feed_marks WHERE transaction > pg_snapshot_xmax(pg_current_snapshot())')
  else if (latest?.isRecent) return 'recent'
  await pool.query(
    `INSERT INTO feed_marks (at, transaction) VALUES (now(), pg_snapshot_xmax(pg_current_snapshot())) ON CONFLICT DO NOTHING`,
  )
  return latest?.isAhead ? 'went_back' : 'marked'
}

/**
 * Returns a position before all events received at a time or later. The transaction that stores an event has a higher number than any that
 * began before the event was received. Returns the start of the feed if no mark is old enough.
 * @throws errors of Postgres
 */
export async function findFeedPositionAt(pool: Queryable, fromMs: number): Promise<FeedPosition> {
  const { rows } = await pool.query<{ transaction: string }>({
    name: 'find_feed_position_at',
    text: `SELECT transaction::text FROM (
        SELECT transaction FROM feed_marks WHERE at <= $1 ORDER BY at DESC LIMIT 1) m
      WHERE transaction < pg_snapshot_xmax(pg_current_snapshot())`,
    values: [new Date(Math.max(0, fromMs - clockAheadMs))],
  })
  return rows[0] ? { transaction: rows[0].transaction, eventId: '' } : feedStart
}

/** Removes at most 5 000 marks that are older than every event. Safe to repeat and to run concurrently. @throws errors of Postgres */
export function forgetFeedMarks(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'feed_marks', before: new Date(nowMs - keptMs) })
}

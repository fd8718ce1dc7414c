import { type EventId } from '#internal/base/index.ts'
import { lastExpiredDay, type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'
import { lowestIdOf } from './list-source.ts'
import { isAmongText } from './model.ts'

const examinedMax = 5_000
const dayMs = 86_400_000

// Scans the part of the queue whose events are older than a day by event id, since ids sort by time of receipt and not of expiry. Skips
// deliveries in progress and locked rows; the next scan finds them. Safe to repeat.
const expireText = `
WITH seen AS MATERIALIZED (
  SELECT event_id, destination, expires_on FROM deliveries_due WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT ${examinedMax}
), taken AS MATERIALIZED (
  SELECT d.event_id, d.destination FROM deliveries_due d
  WHERE d.event_id = ANY(ARRAY(SELECT event_id FROM seen WHERE expires_on <= $3::date))
    AND d.leased_until <= now() FOR UPDATE SKIP LOCKED
), removed AS (
  DELETE FROM deliveries_due WHERE ${isAmongText('taken')} RETURNING 1
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM seen), (SELECT max(event_id) FROM seen)`

/** Creates a repeating scan that removes expired deliveries. Those of suspended callbacks and tenants stay queued until they expire. */
export function createQueueExpiry(): {
  /** Examines the next 5 000 deliveries of events that are older than a day. `hasMore`: the scan has not reached the last of them. */
  removeBatch(pool: Pool, nowMs: number): Promise<RemovedRows>
} {
  let after = ''
  return {
    async removeBatch(pool, nowMs) {
      const { rows } = await pool.query<[removed: number, seen: number, last: EventId | null]>({
        name: 'expire_queued',
        text: expireText,
        rowMode: 'array',
        // No event expires within a day of its receipt.
        values: [after, lowestIdOf(nowMs - dayMs), lastExpiredDay(nowMs)],
      })
      const [removed = 0, seen = 0, last = null] = rows[0] ?? []
      const hasMore = seen === examinedMax && last !== null
      after = hasMore ? last : ''
      return { removed, hasMore }
    },
  }
}

/** Removes at most 5 000 expired entries. Safe to repeat and to run concurrently. @throws errors of Postgres */
export function forgetFailedDeliveries(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'failed_deliveries', lastDay: lastExpiredDay(nowMs) })
}

/** Removes at most 5 000 waiting pulls of expired events. Safe to repeat and to run concurrently. @throws errors of Postgres */
export function forgetWaitingPulls(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'pulls_due', lastDay: lastExpiredDay(nowMs) })
}

/** Removes at most 5 000 expired keys; repeated events are then new. Safe to repeat and to run concurrently. @throws errors of Postgres */
export function forgetDedupeKeys(pool: Pool, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table: 'dedupe_keys', lastDay: lastExpiredDay(nowMs) })
}

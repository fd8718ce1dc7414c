import type { EventId } from '#internal/base/index.ts'
import { lastExpiredDay, type Pool, type RemovedRows } from '#internal/storage/index.ts'
import { lowestIdOf } from './event-filter.ts'

/** Removes from the queue what cannot be delivered any more. */
export interface QueueExpiry {
  /** Looks at the next 5 000 deliveries of events that are older than a day; `hasMore` until it has seen all of them. */
  removeBatch(pool: Pool, nowMs: number): Promise<RemovedRows>
}

const examinedMax = 5_000
const dayMs = 86_400_000

// Ids are in the order of receipt, and expiry is not: so it walks the whole of the queue's old part by its key, which only callbacks in
// trouble have. What is being sent at this moment is left alone, and found by the next walk. Rows that others hold are passed by,
// so that it waits for nobody. Repeating it is safe.
const expireText = `
WITH seen AS MATERIALIZED (
  SELECT event_id, expires_on FROM deliveries_due WHERE event_id > $1 AND event_id < $2 ORDER BY event_id LIMIT ${examinedMax}
), taken AS MATERIALIZED (
  SELECT d.event_id FROM deliveries_due d
  WHERE d.event_id = ANY(ARRAY(SELECT event_id FROM seen WHERE expires_on <= $3::date))
    AND d.leased_until <= now() FOR UPDATE SKIP LOCKED
), removed AS (
  DELETE FROM deliveries_due WHERE event_id = ANY(ARRAY(SELECT event_id FROM taken)) RETURNING 1
)
SELECT (SELECT count(*) FROM removed), (SELECT count(*) FROM seen), (SELECT max(event_id) FROM seen)`

/**
 * Makes a walk that begins anew once it has seen all. Where a callback or a tenant is suspended, deliveries wait for as long as
 * their events are kept, and no longer; what an event that went away leaves in the queue would only be found to be nothing.
 */
export function createQueueExpiry(): QueueExpiry {
  let after = ''
  return {
    async removeBatch(pool, nowMs) {
      const { rows } = await pool.query<[removed: number, seen: number, last: EventId | null]>({
        name: 'expire_queued',
        text: expireText,
        rowMode: 'array',
        // Whatever expires today came in before today.
        values: [after, lowestIdOf(nowMs - dayMs), lastExpiredDay(nowMs)],
      })
      const [removed = 0, seen = 0, last = null] = rows[0] ?? []
      const hasMore = seen === examinedMax && last !== null
      after = hasMore ? last : ''
      return { removed, hasMore }
    },
  }
}

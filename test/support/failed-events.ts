import { failedEventColumns } from '#internal/events/failed-events.ts'
import type { Pool } from '#internal/storage/index.ts'

/** Lists all events that are failed by now as such, as deliveries do in the statement that sets their state. Repeating it is safe. */
export async function listFailedEvents(pool: Pool): Promise<void> {
  await pool.query(
    `INSERT INTO failed_events (${failedEventColumns})
     SELECT ${failedEventColumns} FROM events WHERE state = 'delivery_failed' ON CONFLICT DO NOTHING`,
  )
}

import { failedEventColumns } from '#internal/events/complete.ts'
import type { Pool } from '#internal/storage/index.ts'

/** Adds all failed events to the list of failed events, as completing a delivery does. Can be repeated. */
export async function listFailedEvents(pool: Pool): Promise<void> {
  await pool.query(
    `INSERT INTO failed_deliveries (${failedEventColumns}, destination)
     SELECT ${failedEventColumns}, 'callback' FROM events WHERE state = 'delivery_failed' ON CONFLICT DO NOTHING`,
  )
}

import type { Pool } from '#internal/storage/index.ts'

/** Lists all events that are failed by now as such, as deliveries do in the statement that sets their state. Repeating it is safe. */
export async function listFailedEvents(pool: Pool): Promise<void> {
  const columns =
    'id, tenant_id, expires_on, provider, source_event_id, raw_type, type, occurred_at, payload_bytes, payload_expires_on, round'
  await pool.query(
    `INSERT INTO failed_events (${columns}, settled_at)
     SELECT ${columns}, coalesce(settled_at, now()) FROM events WHERE state = 'delivery_failed' ON CONFLICT DO NOTHING`,
  )
}

import type { Pool } from '#internal/storage/index.ts'

const eventTables = [
  'dedupe_keys',
  'events',
  'failed_events',
  'event_payloads',
  'attempts',
  'deliveries_due',
  'tenant_queues',
]

/** Removes all events with all that is kept of each, and the rows of these other tables. Waits for whoever reads them. */
export async function truncateEvents(pool: Pool, ...others: readonly string[]): Promise<void> {
  await pool.query(`TRUNCATE ${[...eventTables, ...others].join(', ')}`)
}

import type { Pool } from '#internal/storage/index.ts'

const eventTables = [
  'dedupe_keys',
  'events',
  'failed_deliveries',
  'event_payloads',
  'attempts',
  'deliveries_due',
  'pulls_due',
  'tenant_queues',
  'destination_alerts',
]

/** Truncates events and their related tables, and these other tables. Waits for readers. */
export async function truncateEvents(pool: Pool, ...others: readonly string[]): Promise<void> {
  await pool.query(`TRUNCATE ${[...eventTables, ...others].join(', ')}`)
}

import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import { bigint, pgTable, primaryKey, text, timestamp } from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const count = (name: string) => bigint(name, { mode: 'number' })

/** Usage per tenant, meter and hour (UTC), absolute amounts. */
export const usageHourly = pgTable(
  'usage_hourly',
  {
    tenantId: text('tenant_id').notNull(),
    meter: text('meter').notNull(),
    hour: at('hour').notNull(),
    amount: count('amount').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.meter, table.hour] })],
)

/** Typed queries over a pool or over one connection inside `withTx`. Cheap to make; holds no resource. */
export function orm(connection: Pool | PoolClient): NodePgDatabase {
  return drizzle({ client: connection })
}

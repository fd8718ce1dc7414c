import { date, pgTable, primaryKey, text, timestamp } from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'

/** Refused calls, partitioned by `expires_on`. `baseline/intake.sql` creates the index over tenant and id. */
export const refusedCalls = pgTable(
  'refused_calls',
  {
    id: text('id').notNull(),
    expiresOn: date('expires_on').notNull(),
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    provider: text('provider').notNull(),
    cause: text('cause').notNull(),
    refusedAt: timestamp('refused_at', { withTimezone: true, mode: 'date' }).notNull(),
    sourceAddress: text('source_address'),
    /** Headers as JSON text: an object whose values are strings. Credentials are removed. */
    headers: text('headers').notNull(),
    /** Start of the body if the signature failed, else null. */
    sample: text('sample'),
  },
  (table) => [primaryKey({ columns: [table.id, table.expiresOn] })],
)

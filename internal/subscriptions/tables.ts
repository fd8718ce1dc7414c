import { sql } from 'drizzle-orm'
import { bigint, customType, pgTable, primaryKey, smallint, text, timestamp } from 'drizzle-orm/pg-core'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const never = sql`'-infinity'`
const transactionId = customType<{ data: string }>({ dataType: () => 'xid8' })

/** Subscriptions of tenants. The migrations `subscriptions` and `subscription_expiry` explain the columns. */
export const subscriptions = pgTable(
  'subscriptions',
  {
    tenantId: text('tenant_id').notNull(),
    name: text('name').notNull(),
    providers: text('providers').array().notNull(),
    types: text('types').array().notNull(),
    positionTransaction: transactionId('position_transaction').notNull(),
    positionEvent: text('position_event').notNull(),
    receivedFrom: text('received_from').notNull(),
    lease: text('lease'),
    leasedTransaction: transactionId('leased_transaction'),
    leasedEvent: text('leased_event'),
    heldUntil: at('held_until').notNull().default(never),
    acknowledged: text('acknowledged'),
    acknowledgedAt: at('acknowledged_at'),
    version: bigint('version', { mode: 'number' }).notNull().default(1),
    createdAt: at('created_at').notNull().defaultNow(),
    idleDays: smallint('idle_days'),
    usedAt: at('used_at').notNull().defaultNow(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.name] })],
)

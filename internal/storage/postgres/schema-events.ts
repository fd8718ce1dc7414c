import {
  boolean,
  customType,
  date,
  integer,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const day = (name: string) => date(name, { mode: 'string' })
const uuid = customType<{ data: string }>({ dataType: () => 'uuid' })

/** Which provider events were received; see migration 0002 for all of these tables. */
export const dedupeKeys = pgTable('dedupe_keys', {
  key: uuid('key').primaryKey(),
  eventId: text('event_id').notNull(),
  expiresOn: day('expires_on').notNull(),
})

/** Received events without their payloads. */
export const events = pgTable(
  'events',
  {
    id: text('id').notNull(),
    expiresOn: day('expires_on').notNull(),
    tenantId: text('tenant_id').notNull(),
    provider: text('provider').notNull(),
    sourceEventId: text('source_event_id').notNull(),
    rawType: text('raw_type').notNull(),
    type: text('type').notNull(),
    occurredAt: at('occurred_at').notNull(),
    receivedAt: at('received_at').notNull(),
    headers: text('headers').notNull(),
    payloadBytes: integer('payload_bytes').notNull(),
    payloadExpiresOn: day('payload_expires_on').notNull(),
    state: text('state').notNull(),
    round: smallint('round').notNull(),
    settledAt: at('settled_at'),
  },
  (table) => [primaryKey({ columns: [table.id, table.expiresOn] })],
)

/** Payloads as received text. */
export const eventPayloads = pgTable(
  'event_payloads',
  {
    eventId: text('event_id').notNull(),
    expiresOn: day('expires_on').notNull(),
    payload: text('payload').notNull(),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.expiresOn] })],
)

/** Calls to callbacks that had an end. */
export const attempts = pgTable(
  'attempts',
  {
    eventId: text('event_id').notNull(),
    expiresOn: day('expires_on').notNull(),
    round: smallint('round').notNull(),
    attempt: smallint('attempt').notNull(),
    startedAt: at('started_at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    outcome: text('outcome').notNull(),
    status: smallint('status'),
    cause: text('cause'),
    answer: text('answer'),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.round, table.attempt, table.expiresOn] })],
)

/** Calls of providers that were refused. */
export const refusedCalls = pgTable(
  'refused_calls',
  {
    id: text('id').notNull(),
    expiresOn: day('expires_on').notNull(),
    tenantId: text('tenant_id').notNull(),
    provider: text('provider').notNull(),
    cause: text('cause').notNull(),
    refusedAt: at('refused_at').notNull(),
    sourceAddress: text('source_address'),
    headers: text('headers').notNull(),
    sample: text('sample'),
  },
  (table) => [primaryKey({ columns: [table.id, table.expiresOn] })],
)

/** Unsettled work. */
export const deliveriesDue = pgTable('deliveries_due', {
  eventId: text('event_id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  expiresOn: day('expires_on').notNull(),
  payloadExpiresOn: day('payload_expires_on').notNull(),
  payloadBytes: integer('payload_bytes').notNull(),
  round: smallint('round').notNull(),
  attempts: smallint('attempts').notNull().default(0),
  claims: smallint('claims').notNull().default(0),
  isRetry: boolean('is_retry').notNull().default(false),
  dueAt: at('due_at').notNull(),
  lease: text('lease'),
})

/** A tenant's place in the queue. */
export const lanes = pgTable('lanes', {
  tenantId: text('tenant_id').primaryKey(),
  nextDueAt: at('next_due_at').notNull(),
  idleChecks: smallint('idle_checks').notNull().default(0),
  lastServedAt: at('last_served_at').notNull(),
  breakerUntil: at('breaker_until').notNull(),
  suspendedAt: at('suspended_at'),
  suspendedCause: text('suspended_cause'),
})

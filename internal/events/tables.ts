import { sql } from 'drizzle-orm'
import {
  bigint,
  boolean,
  customType,
  date,
  integer,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
  uuid,
} from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'
import type { OriginKind } from './model.ts'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const never = sql`'-infinity'`

/** Dedupe keys of received events. Two events with the same key are the same event of a provider. */
export const dedupeKeys = pgTable('dedupe_keys', {
  key: uuid('key').primaryKey(),
  eventId: text('event_id').notNull(),
  expiresOn: date('expires_on').notNull(),
})

const transactionId = customType<{ data: string }>({ dataType: () => 'xid8' })

/**
 * Events, partitioned by the day on which they expire. `baseline/events.sql` explains the columns of this and the other tables of
 * events. Ids are compared as bytes (COLLATE "C").
 */
export const events = pgTable(
  'events',
  {
    id: text('id').notNull(),
    expiresOn: date('expires_on').notNull(),
    tenantId: text('tenant_id').notNull(),
    provider: text('provider').notNull(),
    sourceEventId: text('source_event_id').notNull(),
    rawType: text('raw_type').notNull(),
    type: text('type').notNull(),
    occurredAt: at('occurred_at').notNull(),
    receivedAt: at('received_at').notNull(),
    headers: text('headers').notNull(),
    payloadBytes: integer('payload_bytes').notNull(),
    payloadExpiresOn: date('payload_expires_on').notNull(),
    state: text('state').notNull(),
    cycle: smallint('cycle').notNull(),
    completedAt: at('completed_at'),
    overLimit: boolean('over_limit').notNull().default(false),
    origin: text('origin').$type<OriginKind>().notNull().default('provider'),
    originBy: text('origin_by'),
    storedBy: transactionId('stored_by').notNull().default(sql`pg_current_xact_id()`),
  },
  (table) => [primaryKey({ columns: [table.id, table.expiresOn] })],
)

/** Payloads of events, partitioned by the day on which they expire. */
export const eventPayloads = pgTable(
  'event_payloads',
  {
    eventId: text('event_id').notNull(),
    expiresOn: date('expires_on').notNull(),
    payload: text('payload').notNull(),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.expiresOn] })],
)

/** Deliveries whose last delivery cycle failed, with the columns that lists of events return. */
export const failedDeliveries = pgTable(
  'failed_deliveries',
  {
    id: text('id').notNull(),
    destination: text('destination').notNull(),
    tenantId: text('tenant_id').notNull(),
    expiresOn: date('expires_on').notNull(),
    provider: text('provider').notNull(),
    sourceEventId: text('source_event_id').notNull(),
    rawType: text('raw_type').notNull(),
    type: text('type').notNull(),
    occurredAt: at('occurred_at').notNull(),
    payloadBytes: integer('payload_bytes').notNull(),
    payloadExpiresOn: date('payload_expires_on').notNull(),
    cycle: smallint('cycle').notNull(),
    completedAt: at('completed_at').notNull(),
    origin: text('origin').$type<OriginKind>().notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.id, table.destination] })],
)

/** Completed delivery attempts, partitioned by the day on which their events expire. */
export const attempts = pgTable(
  'attempts',
  {
    eventId: text('event_id').notNull(),
    destination: text('destination').notNull(),
    expiresOn: date('expires_on').notNull(),
    cycle: smallint('cycle').notNull(),
    attempt: smallint('attempt').notNull(),
    startedAt: at('started_at').notNull(),
    durationMs: integer('duration_ms').notNull(),
    outcome: text('outcome').notNull(),
    status: smallint('status'),
    cause: text('cause'),
    answer: text('answer'),
    exchange: text('exchange'),
  },
  (table) => [
    primaryKey({ columns: [table.eventId, table.destination, table.cycle, table.attempt, table.expiresOn] }),
  ],
)

/** Deliveries that are not completed, one row per event and destination. */
export const deliveriesDue = pgTable(
  'deliveries_due',
  {
    eventId: text('event_id').notNull(),
    destination: text('destination').notNull(),
    tenantId: text('tenant_id').notNull(),
    expiresOn: date('expires_on').notNull(),
    payloadExpiresOn: date('payload_expires_on').notNull(),
    payloadBytes: integer('payload_bytes').notNull(),
    cycle: smallint('cycle').notNull(),
    attempts: smallint('attempts').notNull().default(0),
    claims: smallint('claims').notNull().default(0),
    isRetry: boolean('is_retry').notNull().default(false),
    dueAt: at('due_at').notNull(),
    lease: text('lease'),
    leasedUntil: at('leased_until').notNull().default(never),
  },
  (table) => [primaryKey({ columns: [table.eventId, table.destination] })],
)

/** Accepted events without a delivery, which wait until a subscription acknowledges them. */
export const pullsDue = pgTable('pulls_due', {
  eventId: text('event_id').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  expiresOn: date('expires_on').notNull(),
})

/** Numbers of transactions by time, for subscriptions that begin at a time. */
export const feedMarks = pgTable('feed_marks', {
  at: timestamp('at', { withTimezone: true, mode: 'date' }).primaryKey(),
  transaction: transactionId('transaction').notNull(),
})

/** Destinations in trouble, for notifications of their owners. */
export const destinationAlerts = pgTable(
  'destination_alerts',
  {
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    destination: text('destination').notNull(),
    isSuspended: boolean('is_suspended').notNull().default(false),
    since: at('since').notNull(),
    failures: bigint('failures', { mode: 'number' }).notNull().default(0),
    cause: text('cause').notNull(),
    lastFailureAt: at('last_failure_at').notNull(),
    lastSuccessAt: at('last_success_at').notNull().default(never),
    open: text('open').$type<'suspended' | 'failing'>(),
    suspendedNotifiedAt: at('suspended_notified_at').notNull().default(never),
    failingNotifiedAt: at('failing_notified_at').notNull().default(never),
    checkAt: at('check_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.destination] })],
)

/** Tenant queues: position and state of each destination in the delivery queue. */
export const tenantQueues = pgTable(
  'tenant_queues',
  {
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    destination: text('destination').notNull(),
    nextDueAt: at('next_due_at').notNull(),
    idleChecks: smallint('idle_checks').notNull().default(0),
    lastServedAt: at('last_served_at').notNull().default(never),
    breakerUntil: at('breaker_until').notNull().default(never),
    suspendedAt: at('suspended_at'),
    suspendedCause: text('suspended_cause'),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.destination] })],
)

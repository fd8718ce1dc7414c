import { boolean, integer, jsonb, pgTable, primaryKey, smallint, text } from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'
import { epochMs, int8 } from '#internal/storage/index.ts'
import { countColumns } from './stats-tally.ts'

const tenantId = () => text('tenant_id').$type<TenantId>()

export const usageHourly = pgTable(
  'usage_hourly',
  {
    tenantId: tenantId().notNull(),
    kind: text('meter').notNull(),
    hourMs: epochMs('hour').notNull(),
    amount: int8('amount').notNull().default(0),
    /** Locks of records in Postgres, which `amount` does not include. */
    durableAmount: int8('durable_amount').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.kind, table.hourMs] })],
)

/** Usage reported by other systems, kept to recognize repeated reports. */
export const usageEmissions = pgTable(
  'usage_emissions',
  {
    tenantId: tenantId().notNull(),
    id: text('id').notNull(),
    kind: text('meter').notNull(),
    hourMs: epochMs('hour').notNull(),
    amount: int8('amount').notNull(),
    recordedAtMs: epochMs('recorded_at').notNull(),
    /** Null if the usage was reported, not decided by a guardrail. */
    decision: text('decision'),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.id] })],
)

/** The epoch changes when the tenant's data in Redis is lost. */
export const recordEpochs = pgTable('record_epochs', {
  tenantId: tenantId().primaryKey(),
  epoch: text('epoch').notNull(),
  seededAtMs: epochMs('seeded_at').notNull(),
})

/** Sums of a tenant's records, in several rows (stripes) for concurrent writers. `baseline/records.sql` describes the columns. */
export const recordMeters = pgTable(
  'record_meters',
  {
    tenantId: tenantId().notNull(),
    stripe: smallint('stripe').notNull(),
    fence: int8('fence').notNull().default(0),
    minute: integer('minute').notNull().default(0),
    minuteLocks: int8('minute_locks').notNull().default(0),
    minuteBeforeLocks: int8('minute_before_locks').notNull().default(0),
    month: integer('month').notNull().default(0),
    monthLocks: int8('month_locks').notNull().default(0),
    monthBeforeLocks: int8('month_before_locks').notNull().default(0),
    monthOthers: int8('month_others').notNull().default(0),
    bytes: int8('bytes').notNull().default(0),
    swept: integer('swept').notNull().default(0),
    generation: integer('generation').notNull().default(0),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.stripe] })],
)

/** Bytes in Postgres by stripe and by the minute at whose start they expire. */
export const recordBytes = pgTable(
  'record_bytes',
  {
    tenantId: tenantId().notNull(),
    until: integer('until').notNull(),
    stripe: smallint('stripe').notNull(),
    bytes: int8('bytes').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.until, table.stripe] })],
)

/** Locks in Postgres by stripe and hour since the epoch, before they are moved to `usage_hourly`. */
export const recordHours = pgTable(
  'record_hours',
  {
    tenantId: tenantId().notNull(),
    hour: integer('hour').notNull(),
    stripe: smallint('stripe').notNull(),
    locks: int8('locks').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.hour, table.stripe] })],
)

/** Number of changes of overrides, in a single row. */
export const limitOverridesVersion = pgTable('limit_overrides_version', {
  singleton: boolean('singleton').primaryKey().default(true),
  version: int8('version').notNull(),
})

/** Hard limits that temporarily replace a tenant's own limits. */
export const limitOverrides = pgTable(
  'limit_overrides',
  {
    tenantId: tenantId().notNull(),
    limit: text('limit_name').notNull(),
    /** Null means no limit. */
    hard: int8('hard'),
    expiresAtMs: epochMs('until').notNull(),
    reason: text('reason').notNull(),
    updatedAtMs: epochMs('set_at').notNull(),
    updatedBy: text('set_by').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.limit] })],
)

const statsColumns = {
  /** Empty for the sum over all tenants. */
  tenantId: tenantId().notNull(),
  /** Start of the minute or hour. */
  atMs: epochMs('at').notNull(),
  ...Object.fromEntries(countColumns.map((name) => [name, integer(name).notNull()])),
  refusedBy: jsonb('refused_by').$type<Readonly<Record<string, number>>>(),
}

export const statsMinutely = pgTable('stats_minutely', statsColumns, (table) => [
  primaryKey({ columns: [table.tenantId, table.atMs] }),
])

export const statsHourly = pgTable('stats_hourly', statsColumns, (table) => [
  primaryKey({ columns: [table.tenantId, table.atMs] }),
])

/** Maximum state of the queue in each minute. */
export const statsQueue = pgTable('stats_queue', {
  atMs: epochMs('at').primaryKey(),
  dueCount: integer('due_count').notNull(),
  oldestAgeMs: int8('oldest_age_ms').notNull(),
})

/** Sequence number of each writer's last batch. */
export const statsWriters = pgTable('stats_writers', {
  writer: text('writer').primaryKey(),
  turn: int8('turn').notNull(),
  writtenAtMs: epochMs('written_at').notNull(),
})

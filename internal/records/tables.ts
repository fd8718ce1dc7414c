import { boolean, date, integer, pgTable, primaryKey, smallint, text, uuid } from 'drizzle-orm/pg-core'
import type { Day, TenantId } from '#internal/base/index.ts'
import { epochMs, int8 } from '#internal/storage/index.ts'
import type { Ending } from './lock-history.ts'

/**
 * Partitioned by the day on which a row expires. `baseline/records.sql` creates the indexes. Its name is also the label `table` of metrics and
 * a field of logs, so it stays the contract's word.
 */
export const lockHistory = pgTable(
  'executions',
  {
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    fence: int8('fence').notNull(),
    expiresOn: date('expires_on').$type<Day>().notNull(),
    scope: text('scope').notNull(),
    key: text('key').notNull(),
    /** Expiry of the lock; null if only its outcome is known. */
    expiresAtMs: epochMs('held_until'),
    extendedAtMs: epochMs('extended_at'),
    endedAtMs: epochMs('ended_at'),
    ending: text('ending').$type<Ending>().notNull(),
    status: smallint('status'),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.fence, table.expiresOn] })],
)

/** Partitioned by the day on which a row expires. `baseline/records.sql` describes the columns. */
export const recordEntries = pgTable(
  'record_entries',
  {
    id: uuid('id').notNull(),
    expiresOn: date('expires_on').$type<Day>().notNull(),
    expiresAtMs: int8('expires_at').notNull(),
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    scope: text('scope').notNull(),
    key: text('key').notNull(),
    heldUntilMs: int8('held_until').notNull(),
    token: text('token').notNull(),
    fence: int8('fence').notNull(),
    ttlMs: int8('ttl_ms').notNull(),
    lockMs: int8('lock_ms').notNull(),
    isTakenOver: boolean('taken_over').notNull(),
    isWaited: boolean('waited').notNull(),
    attemptId: text('attempt').notNull(),
    fingerprint: text('fingerprint').notNull(),
    bytes: integer('bytes').notNull(),
    bytesUntil: integer('bytes_until').notNull(),
    record: text('record'),
  },
  (table) => [primaryKey({ columns: [table.id, table.expiresOn] })],
)

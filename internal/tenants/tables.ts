import { sql } from 'drizzle-orm'
import { boolean, customType, integer, jsonb, pgTable, primaryKey, smallint, text } from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'
import { epochMs, int8 } from '#internal/storage/index.ts'
import type { ApiKeyScope, RecordDurability, TenantSpec } from './model.ts'
import type { Condition } from './reconcile/conditions.ts'

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })

/** Version of the directory, in a single row. `baseline/tenants.sql` explains why versions become visible in order. */
export const directoryVersion = pgTable('directory_version', {
  singleton: boolean('singleton').primaryKey().default(true),
  version: int8('version').notNull(),
})

/** Highest fencing token (`leaseTransitions`) that has written, per Lease. */
export const writerFence = pgTable('writer_fence', {
  name: text('name').primaryKey(),
  leaseTransitions: int8('lease_transitions').notNull(),
})

/** Tenants, including deleted ones. */
export const tenants = pgTable('tenants', {
  id: text('id').$type<TenantId>().primaryKey(),
  uid: text('uid').notNull(),
  namespace: text('namespace').notNull(),
  name: text('name').notNull(),
  slug: text('slug'),
  suspended: boolean('suspended').notNull(),
  destinations: text('destinations').array().notNull().generatedAlwaysAs(sql`destinations_of(spec)`),
  /** Emptied when a deleted tenant's data has been removed. */
  spec: jsonb('spec').$type<TenantSpec | Record<string, never>>().notNull(),
  conditions: jsonb('conditions').$type<readonly Condition[]>().notNull().default([]),
  version: int8('version').notNull(),
  resourceCreatedAtMs: epochMs('resource_created_at').notNull(),
  createdAtMs: epochMs('created_at').notNull(),
  updatedAtMs: epochMs('updated_at').notNull(),
  deletedAtMs: epochMs('deleted_at'),
  recordStore: text('record_store').$type<RecordDurability>().notNull().default('redis'),
  recordStoreBefore: text('record_store_before').$type<RecordDurability>(),
  recordStoreMovedAtMs: epochMs('record_store_moved_at'),
  recordStoreGeneration: integer('record_store_generation').notNull().default(0),
  recordFence: int8('record_fence').notNull().default(0),
})

/** Declarations of Provider resources. `declaration` is null once the resource is gone. */
export const providers = pgTable('providers', {
  name: text('name').primaryKey(),
  uid: text('uid').notNull(),
  generation: int8('generation').notNull(),
  aliases: text('aliases').array().notNull(),
  isUnverified: boolean('is_unverified').notNull(),
  declaration: text('declaration'),
  version: int8('version').notNull(),
  updatedAtMs: epochMs('updated_at').notNull().default(sql`now()`),
})

/** Slugs of deleted tenants, each reserved for the resource that had it. */
export const slugReservations = pgTable('slug_reservations', {
  slug: text('slug').primaryKey(),
  namespace: text('namespace').notNull(),
  name: text('name').notNull(),
  reservedUntilMs: epochMs('reserved_until').notNull(),
})

export const apiKeys = pgTable('api_keys', {
  sha256: bytea('sha256').primaryKey(),
  tenantId: text('tenant_id').$type<TenantId>().notNull(),
  name: text('name').notNull(),
  scopes: text('scopes').array().$type<ApiKeyScope[]>().notNull(),
  /** First 11 characters of the key. */
  prefix: text('prefix').notNull(),
  expiresAtMs: epochMs('expires_at'),
  /** Time at which a replaced key becomes invalid; null for a current key. */
  endsAtMs: epochMs('ends_at'),
  createdAtMs: epochMs('created_at').notNull(),
})

export const tenantSecrets = pgTable(
  'tenant_secrets',
  {
    tenantId: text('tenant_id').$type<TenantId>().notNull(),
    field: text('field').notNull(),
    ordinal: smallint('ordinal').notNull(),
    keyId: text('key_id').notNull(),
    nonce: bytea('nonce').notNull(),
    ciphertext: bytea('ciphertext').notNull(),
    sourceName: text('source_name').notNull(),
    sourceVersion: text('source_version').notNull(),
    createdAtMs: epochMs('created_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.field, table.ordinal] })],
)

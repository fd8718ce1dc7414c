import { drizzle, type NodePgDatabase } from 'drizzle-orm/node-postgres'
import {
  bigint,
  boolean,
  customType,
  jsonb,
  pgTable,
  primaryKey,
  smallint,
  text,
  timestamp,
} from 'drizzle-orm/pg-core'
import type { Pool, PoolClient } from 'pg'

const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })
const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })
const count = (name: string) => bigint(name, { mode: 'number' })

/** One row that counts changes of tenants; see migration 0001 for why its versions become visible in order. */
export const directoryVersion = pgTable('directory_version', {
  singleton: boolean('singleton').primaryKey().default(true),
  version: count('version').notNull(),
})

/** The highest `leaseTransitions` that wrote, per kind of leader. */
export const writerFence = pgTable('writer_fence', {
  name: text('name').primaryKey(),
  leaseTransitions: count('lease_transitions').notNull(),
})

/** Tenants, deleted ones included. */
export const tenants = pgTable('tenants', {
  id: text('id').primaryKey(),
  uid: text('uid').notNull(),
  namespace: text('namespace').notNull(),
  name: text('name').notNull(),
  slug: text('slug'),
  suspended: boolean('suspended').notNull(),
  spec: jsonb('spec').notNull(),
  conditions: jsonb('conditions').notNull().default([]),
  version: count('version').notNull(),
  resourceCreatedAt: at('resource_created_at').notNull(),
  createdAt: at('created_at').notNull(),
  updatedAt: at('updated_at').notNull(),
  deletedAt: at('deleted_at'),
})

/** Freed slugs, kept for the resource that had them. */
export const slugReservations = pgTable('slug_reservations', {
  slug: text('slug').primaryKey(),
  namespace: text('namespace').notNull(),
  name: text('name').notNull(),
  reservedUntil: at('reserved_until').notNull(),
})

/** API keys as SHA-256. */
export const apiKeys = pgTable('api_keys', {
  sha256: bytea('sha256').primaryKey(),
  tenantId: text('tenant_id').notNull(),
  name: text('name').notNull(),
  scopes: text('scopes').array().notNull(),
  prefix: text('prefix'),
  expiresAt: at('expires_at'),
  endsAt: at('ends_at'),
  createdAt: at('created_at').notNull(),
})

/** Sealed secrets of tenants. */
export const tenantSecrets = pgTable(
  'tenant_secrets',
  {
    tenantId: text('tenant_id').notNull(),
    field: text('field').notNull(),
    ordinal: smallint('ordinal').notNull(),
    keyId: text('key_id').notNull(),
    nonce: bytea('nonce').notNull(),
    ciphertext: bytea('ciphertext').notNull(),
    sourceName: text('source_name').notNull(),
    sourceVersion: text('source_version').notNull(),
    createdAt: at('created_at').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.field, table.ordinal] })],
)

/** Who did what, when. Never holds a secret. */
export const audit = pgTable('audit', {
  id: count('id').primaryKey().generatedAlwaysAsIdentity(),
  at: at('at').notNull(),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  tenantId: text('tenant_id'),
  detail: jsonb('detail').notNull().default({}),
})

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

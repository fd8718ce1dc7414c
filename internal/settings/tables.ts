import { boolean, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { epochMs, int8 } from '#internal/storage/index.ts'

/** Number of writes of settings, one row. */
export const settingsVersion = pgTable('settings_version', {
  singleton: boolean('singleton').primaryKey().default(true),
  version: int8('version').notNull(),
})

/** Settings that were set. */
export const settings = pgTable(
  'settings',
  {
    /** '' for the whole installation. */
    tenantId: text('tenant_id').notNull(),
    name: text('name').notNull(),
    value: jsonb('value').$type<unknown>().notNull(),
    /** Version of `settings_version` after the write, so that no two writes share one. */
    version: int8('version').notNull(),
    updatedAtMs: epochMs('updated_at').notNull(),
    updatedBy: text('updated_by').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.name] })],
)

import { boolean, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { epochMs, int8 } from '#internal/storage/index.ts'

/** One row with the number of writes. */
export const settingsVersion = pgTable('settings_version', {
  singleton: boolean('singleton').primaryKey().default(true),
  version: int8('version').notNull(),
})

export const settings = pgTable(
  'settings',
  {
    /** Empty for a setting of the whole installation. */
    tenantId: text('tenant_id').notNull(),
    name: text('name').notNull(),
    value: jsonb('value').$type<unknown>().notNull(),
    /** Value of `settings_version` after the write of this row, so that no two writes share a version. */
    version: int8('version').notNull(),
    updatedAtMs: epochMs('updated_at').notNull(),
    updatedBy: text('updated_by').notNull(),
  },
  (table) => [primaryKey({ columns: [table.tenantId, table.name] })],
)

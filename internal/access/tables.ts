import { bigint, customType, jsonb, pgTable, primaryKey, text, timestamp } from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'
import type { Actor } from './actor.ts'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' }).notNull()
const bytea = customType<{ data: Buffer }>({ dataType: () => 'bytea' })

/** Sessions of the dashboard. */
export const sessions = pgTable('sessions', {
  idSha256: bytea('id_sha256').primaryKey(),
  actor: jsonb('actor').$type<Actor>().notNull(),
  name: text('actor_name').notNull(),
  tenantId: text('tenant_id'),
  startedAt: at('created_at'),
  seenAt: at('seen_at'),
  endsAt: at('ends_at'),
})

export const savedViews = pgTable(
  'saved_views',
  {
    owner: text('actor_name').notNull(),
    name: text('name').notNull(),
    tenantId: text('tenant_id').$type<TenantId>(),
    query: text('query').notNull(),
    seenAt: at('seen_at'),
  },
  ({ owner, name }) => [primaryKey({ columns: [owner, name] })],
)

/** Never contains a secret. */
export const audit = pgTable('audit', {
  id: bigint('id', { mode: 'number' }).primaryKey().generatedAlwaysAsIdentity(),
  at: at('at'),
  actor: text('actor').notNull(),
  action: text('action').notNull(),
  tenantId: text('tenant_id').$type<TenantId>(),
  detail: jsonb('detail').$type<Readonly<Record<string, unknown>>>().notNull().default({}),
})

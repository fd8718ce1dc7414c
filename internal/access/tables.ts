import { customType, jsonb, pgTable, text, timestamp } from 'drizzle-orm/pg-core'
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

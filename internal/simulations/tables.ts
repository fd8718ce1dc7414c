import { date, jsonb, pgTable, smallint, text, timestamp } from 'drizzle-orm/pg-core'
import type { TenantId } from '#internal/base/index.ts'
import type { Chargeback, SimulationCause, SimulationId, SimulationState } from './simulation.ts'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

/** One row per simulation with its next event. `baseline/simulations.sql` creates the indexes. */
export const simulations = pgTable('simulations', {
  id: text('id').$type<SimulationId>().primaryKey(),
  tenantId: text('tenant_id').$type<TenantId>().notNull(),
  idempotencyKey: text('idempotency_key'),
  request: jsonb('request').$type<Chargeback>().notNull(),
  requestedBy: text('requested_by').notNull(),
  state: text('state').$type<SimulationState>().notNull(),
  dueAt: at('due_at').array().notNull(),
  sentAt: at('sent_at').array().notNull().default([]),
  nextAt: at('next_at'),
  lease: text('lease'),
  failures: smallint('failures').notNull().default(0),
  cause: text('cause').$type<SimulationCause>(),
  createdAt: at('created_at').notNull(),
  startedAt: at('started_at'),
  endedAt: at('ended_at'),
  expiresOn: date('expires_on').notNull(),
})

export type SimulationRow = typeof simulations.$inferSelect

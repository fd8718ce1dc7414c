import { sql } from 'drizzle-orm'
import { boolean, integer, jsonb, pgTable, smallint, text, timestamp } from 'drizzle-orm/pg-core'
import type { ReplayId, ReplayJob, ReplayState, StoredFilter } from './job.ts'
import type { ReplayOutcome } from './progress.ts'

const at = (name: string) => timestamp(name, { withTimezone: true, mode: 'date' })

/** Replay jobs. `baseline/replays.sql` explains the columns. */
export const replays = pgTable('replays', {
  id: text('id').$type<ReplayId>().primaryKey(),
  idempotencyKey: text('idempotency_key').notNull(),
  tenantId: text('tenant_id'),
  filter: jsonb('filter').$type<StoredFilter>().notNull(),
  ratePerSecond: smallint('rate_per_second').notNull(),
  requestedBy: text('requested_by').notNull(),
  state: text('state').$type<ReplayState>().notNull(),
  totalCount: integer('total_count').notNull(),
  totalIsExact: boolean('total_is_exact').notNull(),
  examinedTo: text('examined_to'),
  endsBefore: text('ends_before').notNull(),
  queuedCount: integer('queued_count').notNull().default(0),
  queued: text('queued').array().notNull().default([]),
  skipped: jsonb('skipped').$type<ReplayJob['skipped']>().notNull().default({}),
  isWaiting: boolean('is_waiting').notNull().default(false),
  failures: smallint('failures').notNull().default(0),
  failedCause: text('failed_cause'),
  createdAt: at('created_at').notNull(),
  startedAt: at('started_at'),
  endedAt: at('ended_at'),
  nextStepAt: at('next_step_at').notNull(),
  notifyAt: at('notify_at'),
  outcome: jsonb('outcome').$type<ReplayOutcome>(),
  countAt: at('count_at').default(sql`now()`),
})

import { type Day, dayAfter } from '#internal/base/index.ts'
import { ensurePartitions, type PartitionedTable, partitionName, type WantedPartition } from './partitions.ts'
import type { Pool } from './pool.ts'

/** How long a live tenant's data is kept. */
interface RetentionPair {
  readonly payloadDays: number
  readonly eventDays: number
}

/** Receipt days that partitions are there for: today and the two after it, so that a day without any of us does no harm. */
const receiptDays = 3
const dayMs = 86_400_000
/** As the schema of the resource has it: so there are at most 90 × 90 pairs, and with three receipt days 460 partitions. */
const daysMax = 90

/**
 * Makes the partitions that whatever is received from now until the end of the day after tomorrow (UTC) will need, so that no
 * call at midnight has to make its own. A tenant that comes later than this is served all the same: intake makes what it misses.
 * Gives how many it made; a signal ends it early. Any number of processes may call this at once; again, it costs two queries.
 * @throws whatever Postgres throws; then the partitions made so far are there
 */
export async function ensurePartitionsAhead(
  pool: Pool,
  nowMs: number,
  signal?: AbortSignal,
): Promise<number> {
  return await ensurePartitions(pool, partitionsAhead(await listRetentionPairs(pool), nowMs), signal)
}

function partitionsAhead(pairs: readonly RetentionPair[], nowMs: number): WantedPartition[] {
  const wanted = new Map<string, WantedPartition>()
  const add = (table: PartitionedTable, day: Day) => wanted.set(partitionName({ table, day }), { table, day })
  // Day by day, since today's are the ones that somebody may be waiting for.
  for (let days = 0; days < receiptDays; days += 1) {
    for (const { payloadDays, eventDays } of pairs) {
      const receivedAtMs = nowMs + days * dayMs
      add('events', dayAfter(receivedAtMs, eventDays))
      add('attempts', dayAfter(receivedAtMs, eventDays))
      add('executions', dayAfter(receivedAtMs, eventDays))
      add('event_payloads', dayAfter(receivedAtMs, Math.min(payloadDays, eventDays)))
      add('refused_calls', dayAfter(receivedAtMs, Math.min(payloadDays, eventDays)))
    }
  }
  return [...wanted.values()]
}

// One look at all live tenants, without locks: a hundred thousand are read in a moment. What a tenant leaves open is as intake
// fills it: by the runtime settings, and its own word counts before them. A row whose days are none that the schema allows keeps
// the others from nothing.
async function listRetentionPairs(pool: Pool): Promise<RetentionPair[]> {
  const { rows } = await pool.query<RetentionPair>(
    `WITH defaults AS (
       SELECT coalesce((SELECT value::integer FROM settings WHERE tenant_id = '' AND name = 'retention.payloadDays'), 30),
         coalesce((SELECT value::integer FROM settings WHERE tenant_id = '' AND name = 'retention.eventDays'), 90)
     )
     SELECT DISTINCT "payloadDays", "eventDays" FROM tenants, defaults AS d(payload_days, event_days), LATERAL (
       SELECT (spec -> 'retention' ->> 'payloadDays')::integer, (spec -> 'retention' ->> 'eventDays')::integer
     ) AS own(payload_days, event_days), LATERAL (
       SELECT coalesce(own.event_days, greatest(d.event_days, own.payload_days))
     ) AS events("eventDays"), LATERAL (
       SELECT least(coalesce(own.payload_days, d.payload_days), "eventDays")
     ) AS payloads("payloadDays")
     WHERE deleted_at IS NULL AND "payloadDays" BETWEEN 1 AND $1 AND "eventDays" BETWEEN 1 AND $1`,
    [daysMax],
  )
  return rows
}

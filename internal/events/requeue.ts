import { type Day, type EventId, expiryDayOf } from '#internal/base/index.ts'
import {
  classifySqlError,
  ensurePartitions,
  type Pool,
  textArrayParam,
  type WantedPartition,
} from '#internal/storage/index.ts'
import { removeRevivedText } from './failed-events.ts'
import { wakeTenantQueuesText } from './wake-tenant-queues.ts'

/** An event that may have failed, to be tried again from the schedule's beginning. */
export interface RequeueCandidate {
  readonly eventId: EventId
  /** Stands in for the payload where retention took the stored one away; without it such an event is left alone. */
  readonly payload?: string
  /** The first day on which that payload may go. */
  readonly payloadExpiresOn?: Day
}

// Rows of events are locked in order of their ids, so that two calls wait for each other in one direction only; whoever comes
// second finds the state changed and does nothing. The row in deliveries_due went in the statement that set the state, so a new
// one meets none; an entry in failed_events that this statement does not see yet stays until the delivery cycle ends. A stored payload is
// kept; a new one goes no later than its event. $1 is one day, so that one partition of events is planned for.
const requeueText = `
WITH input AS MATERIALIZED (
  SELECT id, payload, payload_expires_on::date FROM unnest($2::text[], $3::text[], $4::text[])
    AS i(id, payload, payload_expires_on)
), failed AS MATERIALIZED (
  SELECT id FROM events WHERE expires_on = $1::date AND id = ANY($2::text[]) AND state = 'delivery_failed'
  ORDER BY id FOR UPDATE
), usable AS MATERIALIZED (
  SELECT i.id, stored.is_there, i.payload, least(i.payload_expires_on, e.expires_on) AS new_expires_on
  FROM failed JOIN input i USING (id) JOIN events e ON e.id = i.id AND e.expires_on = $1::date
  CROSS JOIN LATERAL (SELECT EXISTS (SELECT FROM event_payloads p
    WHERE p.event_id = e.id AND p.expires_on = e.payload_expires_on) AS is_there) stored
  WHERE stored.is_there OR i.payload IS NOT NULL
), revived AS (
  UPDATE events e SET state = 'accepted', cycle = e.cycle + 1, completed_at = NULL,
    payload_bytes = CASE WHEN u.is_there THEN e.payload_bytes ELSE octet_length(u.payload) END,
    payload_expires_on = CASE WHEN u.is_there THEN e.payload_expires_on ELSE u.new_expires_on END
  FROM usable u WHERE e.id = u.id AND e.expires_on = $1::date
  RETURNING e.id, e.tenant_id, e.expires_on, e.payload_expires_on, e.payload_bytes, e.cycle
), no_failures AS (
  ${removeRevivedText}
), payloads AS (
  INSERT INTO event_payloads (event_id, expires_on, payload)
  SELECT id, new_expires_on, payload FROM usable WHERE NOT is_there
), due AS (
  INSERT INTO deliveries_due (event_id, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
  SELECT id, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, now() FROM revived
), new_queues AS (
  INSERT INTO tenant_queues (tenant_id, next_due_at) SELECT DISTINCT tenant_id, now() FROM revived ORDER BY tenant_id
  ON CONFLICT DO NOTHING
), woken_queues AS (
  ${wakeTenantQueuesText('IN (SELECT tenant_id FROM revived)')}
)
SELECT id FROM revived`

const candidatesMax = 1_000

/**
 * Begins a new delivery cycle for each of these events that ended as `delivery_failed`, and gives the ids of those. All others are left
 * alone, so repeating it, also forty times at once, queues an event once. Call `tellForwarders` afterwards.
 * @param candidates at most 1 000
 * @throws whatever Postgres throws; then days that were handled before stay handled
 */
export async function requeueFailed(pool: Pool, candidates: readonly RequeueCandidate[]): Promise<EventId[]> {
  if (candidates.length > candidatesMax)
    throw new RangeError(`at most ${candidatesMax} events a call, got ${candidates.length}`)
  const requeued: EventId[] = []
  for (const [day, ofDay] of Map.groupBy(candidates, ({ eventId }) => expiryDayOf(eventId))) {
    requeued.push(...(await requeueOfDay(pool, day, ofDay)))
  }
  return requeued
}

async function requeueOfDay(
  pool: Pool,
  day: Day,
  candidates: readonly RequeueCandidate[],
): Promise<EventId[]> {
  const unique = [...new Map(candidates.map((one) => [one.eventId, one])).values()]
  try {
    return await updateEvents(pool, day, unique)
  } catch (error) {
    if (classifySqlError(error).kind !== 'partition_missing') throw error
    await ensurePartitions(pool, payloadPartitions(day, unique))
    return await updateEvents(pool, day, unique)
  }
}

async function updateEvents(
  pool: Pool,
  day: Day,
  candidates: readonly RequeueCandidate[],
): Promise<EventId[]> {
  const { rows } = await pool.query<[EventId]>({
    text: requeueText,
    rowMode: 'array',
    values: [
      day,
      textArrayParam(candidates.map(({ eventId }) => eventId)),
      textArrayParam(candidates.map(({ payload }) => payload ?? null)),
      textArrayParam(candidates.map(({ payloadExpiresOn }) => payloadExpiresOn ?? null)),
    ],
  })
  return rows.map(([id]) => id)
}

function payloadPartitions(day: Day, candidates: readonly RequeueCandidate[]): WantedPartition[] {
  const days = new Set(candidates.flatMap(({ payloadExpiresOn }) => payloadExpiresOn ?? []))
  return [...days, day].map((each) => ({ table: 'event_payloads', day: each < day ? each : day }))
}

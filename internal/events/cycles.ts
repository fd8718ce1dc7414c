import { type Day, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import {
  classifySqlError,
  ensurePartitions,
  type Pool,
  textArrayParam,
  type WantedPartition,
} from '#internal/storage/index.ts'
import { type EventState, eventStates, type Queryable } from './list-source.ts'
import { checkedDay } from './load.ts'
import { wakeTenantQueuesText } from './tenant-queue.ts'

// Removes the entries of events that begin another delivery cycle, after a CTE `revived` with their ids; the index failed_events_id
// serves it.
const removeRevivedText = 'DELETE FROM failed_events WHERE id = ANY(ARRAY(SELECT id FROM revived))'

/** An event that its provider sent again. */
export interface RequeueCandidate {
  readonly eventId: EventId
  /** Replaces a payload that retention dropped; without it such an event gets no delivery cycle. */
  readonly payload?: string
  /** Day on which that payload expires. */
  readonly payloadExpiresOn?: Day
}

// Events are locked in the order of their ids against deadlocks; the second of two calls finds the state changed. The old row of
// deliveries_due was deleted with the statement that set the state. An entry of failed_events that is not visible yet stays until the
// delivery cycle ends. A stored payload is kept; a new one expires no later than its event. $1 is one day, for one partition.
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
 * Begins another delivery cycle for each of these events that failed, and returns their ids. Others are left alone, so concurrent
 * and repeated calls queue an event once. Call `tellForwarders` afterwards.
 * @param candidates at most 1 000
 * @throws what Postgres throws; days that were written before stay written
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

/**
 * Result of requesting another delivery cycle for an event. `already_queued`: one is in progress. `not_enabled`: the tenant only
 * verifies this provider's events so far. `rounds_exhausted`: it had the largest number of cycles. `changed`: it is not in the
 * requested state or cycle any more. `not_found`: unknown, another tenant's, or its tenant is deleted.
 */
export const replayFates = [
  'queued',
  'already_queued',
  'payload_expired',
  'not_enabled',
  'rounds_exhausted',
  'changed',
  'not_found',
] as const
/** Result of requesting another delivery cycle for an event. */
export type ReplayFate = (typeof replayFates)[number]

/** Events to deliver again. */
export interface CycleRequest {
  /** At most 500. */
  readonly ids: readonly EventId[]
  /** Filters by tenant. Omit for events of all tenants. */
  readonly tenantId?: TenantId
  /** State that they have to be in; default any. */
  readonly state?: EventState
  /** Delivery cycle that they have to be in; default any. */
  readonly cycle?: number
}

/** Result for one event. */
export interface CycleResult {
  readonly id: EventId
  readonly fate: ReplayFate
  /** Undefined where it was not found. */
  readonly tenantId: TenantId | undefined
  /** Its delivery cycle now. */
  readonly cycle: number
}

/** Most events of one call; more would hold their locks for too long. */
export const cycleEventsMax = 500
/** Largest smallint. */
const cycleMax = 32_767

// Events are locked in the order of their ids, day by day, and tenant queues after them, against deadlocks. Accepted events are not
// locked, so that completions are not waited for. The new row of deliveries_due is a retry, so that a replay of any size leaves three
// quarters of its tenant's turns to new events. An entry of failed_events that is not visible yet stays until the delivery cycle ends.
// The day is a literal, for one partition; OFFSET keeps payloads from being read whole. Repeating it finds the events queued.
const queueText = (day: Day) => `
WITH seen AS MATERIALIZED (
  SELECT id, tenant_id, state, cycle FROM events
  WHERE expires_on = '${day}' AND id = ANY($1::text[]) AND ($2::text IS NULL OR tenant_id = $2)
), locked AS MATERIALIZED (
  SELECT id, state, cycle, payload_expires_on FROM events
  WHERE expires_on = '${day}' AND id = ANY($1::text[]) AND ($2::text IS NULL OR tenant_id = $2) AND state <> 'accepted'
  ORDER BY id FOR UPDATE
), judged AS MATERIALIZED (
  SELECT s.id, s.tenant_id, coalesce(l.cycle, s.cycle + CASE s.state WHEN 'accepted' THEN 0 ELSE 1 END) AS cycle, CASE
    WHEN t.id IS NULL OR t.deleted_at IS NOT NULL THEN 'not_found'
    WHEN l.id IS NULL THEN 'already_queued'
    WHEN NOT l.state = ANY($3::text[]) OR l.cycle <> $5::integer THEN 'changed'
    WHEN l.state = 'verified' AND t.spec -> 'walletRollout' ->> 'stage' IS DISTINCT FROM 'enabled' THEN 'not_enabled'
    WHEN l.cycle >= ${cycleMax} THEN 'rounds_exhausted'
    WHEN l.payload_expires_on < $4::date OR NOT EXISTS (
      SELECT FROM event_payloads p WHERE p.event_id = l.id AND p.expires_on = l.payload_expires_on OFFSET 0)
      THEN 'payload_expired'
    ELSE 'queued' END AS fate
  FROM seen s LEFT JOIN locked l ON l.id = s.id LEFT JOIN tenants t ON t.id = s.tenant_id
), revived AS (
  UPDATE events e SET state = 'accepted', cycle = e.cycle + 1, completed_at = NULL FROM judged j
  WHERE j.fate = 'queued' AND e.id = j.id AND e.expires_on = '${day}'
  RETURNING e.id, e.tenant_id, e.expires_on, e.payload_expires_on, e.payload_bytes, e.cycle
), no_failures AS (
  ${removeRevivedText}
), due AS (
  INSERT INTO deliveries_due
    (event_id, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, is_retry, due_at)
  SELECT id, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, true, now() FROM revived
)
SELECT id, fate, tenant_id, CASE fate WHEN 'queued' THEN cycle + 1 ELSE cycle END FROM judged`

// Tenant queues last, those of all days in one statement and in the order of their ids, against deadlocks.
const wakeText = `
WITH new_queues AS (
  INSERT INTO tenant_queues (tenant_id, next_due_at) SELECT unnest($1::text[]), now() ON CONFLICT DO NOTHING
)
${wakeTenantQueuesText('= ANY($1::text[])')}`

type ResultRow = [id: EventId, fate: ReplayFate, tenantId: TenantId, cycle: number]

/**
 * Begins another delivery cycle for each of these events that may have one. Concurrent calls begin one. Give it a connection in a
 * transaction, in which all of it happens or nothing. @throws what Postgres throws
 */
export async function beginCycles(
  connection: Queryable,
  { ids, tenantId, state, cycle }: CycleRequest,
  nowMs: number,
): Promise<CycleResult[]> {
  if (ids.length > cycleEventsMax)
    throw new RangeError(`at most ${cycleEventsMax} events a call, got ${ids.length}`)
  const results = new Map<EventId, CycleResult>()
  for (const id of ids) results.set(id, { id, fate: 'not_found', tenantId: undefined, cycle: 0 })
  const tomorrow = dayAfter(nowMs, 0)
  const byDay = Map.groupBy(results.keys(), expiryDayOf)
  for (const day of [...byDay.keys()].sort()) {
    if (day < tomorrow) continue
    const { rows } = await connection.query<ResultRow>({
      text: queueText(checkedDay(day)),
      rowMode: 'array',
      values: [
        textArrayParam(byDay.get(day) ?? []),
        tenantId ?? null,
        textArrayParam(state === undefined ? eventStates : [state]),
        tomorrow,
        cycle ?? null,
      ],
    })
    for (const [id, fate, tenant, cycleNow] of rows)
      results.set(id, { id, fate, tenantId: tenant, cycle: cycleNow })
  }
  await wakeQueuesOf(connection, [...results.values()])
  return [...results.values()]
}

async function wakeQueuesOf(connection: Queryable, results: readonly CycleResult[]): Promise<void> {
  const queued = results.flatMap((one) => (one.fate === 'queued' && one.tenantId ? [one.tenantId] : []))
  if (queued.length === 0) return
  await connection.query({ text: wakeText, values: [textArrayParam([...new Set(queued)].sort())] })
}

import { type Day, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import { textArrayParam } from '#internal/storage/index.ts'
import { type EventState, eventStates } from './event-filter.ts'
import type { Queryable } from './event-source.ts'
import { removeRevivedText } from './failed-events.ts'
import { checkedDay } from './load.ts'
import { wakeTenantQueuesText } from './wake-tenant-queues.ts'

/**
 * What came of an event that was to have another delivery cycle. `already_queued`: one is under way; `payload_expired`: there is nothing
 * left to send; `not_enabled`: its provider is still only tried out for its tenant; `rounds_exhausted`: it had as many as can be
 * counted; `changed`: it is no longer in a state that was asked for; `not_found`: not there, another tenant's, or its tenant is
 * deleted.
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
/** One of the things that may come of an event that was to have another delivery cycle. */
export type ReplayFate = (typeof replayFates)[number]

/** Events that are to have another delivery cycle. */
export interface CycleRequest {
  /** At most 500. */
  readonly ids: readonly EventId[]
  /** Whose they have to be; default anybody's. */
  readonly tenantId?: TenantId
  /** What they have to be now; default anything. */
  readonly state?: EventState
  /** The delivery cycle that they have to be in now; default any. */
  readonly cycle?: number
}

/** What came of one event. */
export interface CycleResult {
  readonly id: EventId
  readonly fate: ReplayFate
  /** Undefined where it was not found. */
  readonly tenantId: TenantId | undefined
  /** The delivery cycle that it is in now. */
  readonly cycle: number
}

/** More of them in one statement hold their rows for too long. */
export const cycleEventsMax = 500
/** What a smallint holds. */
const cycleMax = 32_767

// Rows of events are locked in order of their ids, days in order too, and tenant queues after all of them, so that two calls wait for each
// other in one direction only; of whoever comes second they drop out, since a delivery cycle is then under way. Those of accepted events
// are not locked, so that completions are not waited for. A new row in deliveries_due meets none, since the old one went with the
// statement that set the state. It takes its place among the retries, so that a replay of any size leaves three quarters of its
// tenant's turns to what is new. An entry in failed_events that was written since this statement began is not seen here: it stays
// until the delivery cycle ends. Repeating it finds them queued. The day is a literal, so that one partition is planned; OFFSET keeps the
// payloads from being read whole.
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

// Tenant queues last, those of all days in one statement and by id: whoever else locks tenant queues in a transaction waits in that order, too.
const wakeText = `
WITH new_queues AS (
  INSERT INTO tenant_queues (tenant_id, next_due_at) SELECT unnest($1::text[]), now() ON CONFLICT DO NOTHING
)
${wakeTenantQueuesText('= ANY($1::text[])')}`

type ResultRow = [id: EventId, fate: ReplayFate, tenantId: TenantId, cycle: number]

/**
 * Queues another delivery cycle for each of these events that may have one, and tells what came of each; forty at once queue it once. Give
 * it a connection in a transaction, in which all of it happens or nothing. @throws whatever Postgres throws
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

import { type Day, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import {
  classifySqlError,
  ensurePartitions,
  type Pool,
  textArrayParam,
  type WantedPartition,
  withTx,
} from '#internal/storage/index.ts'
import { walletStageText } from '#internal/tenants/index.ts'
import { checkedDay } from './claim.ts'
import { type EventState, eventStates, type Queryable } from './list-source.ts'
import {
  type DestinationKey,
  type DestinationName,
  destinationOfText,
  isAmongText,
  type QueueId,
  queueIdOf,
} from './model.ts'
import { wakeTenantQueuesText } from './tenant-queue.ts'

/**
 * `already_queued`: a cycle is in progress. `not_enabled`: the tenant verifies events of this provider but does not deliver them.
 * `no_callback`: the tenant has no callback, or no receiver for a notification. `cycles_exhausted`: the event has the maximum number of
 * cycles. `test_event`: the event tests a callback and is sent once. `changed`: the event is no longer in the required state or cycle.
 * `not_found`: the event is unknown, belongs to another tenant, or its tenant is deleted.
 */
export const cycleOutcomes = [
  'queued',
  'already_queued',
  'payload_expired',
  'not_enabled',
  'no_callback',
  'cycles_exhausted',
  'test_event',
  'changed',
  'not_found',
] as const
/** Result of requesting another delivery cycle for an event; one of `cycleOutcomes`. */
export type CycleOutcome = (typeof cycleOutcomes)[number]

export interface CycleRequest {
  /** At most 500. */
  readonly ids: readonly EventId[]
  /** Default: any tenant. */
  readonly tenantId?: TenantId
  /** Required state. Default: any state. */
  readonly state?: EventState
  /** Required delivery cycle. Default: any cycle. */
  readonly cycle?: number
  /** If true, deliveries are claimed as retries: a replay of any size leaves three quarters of each claim to new events. Default: true. */
  readonly isRetry?: boolean
}

/** Result of requesting another delivery cycle for one event. */
export interface CycleResult {
  readonly id: EventId
  readonly outcome: CycleOutcome
  readonly tenantId: TenantId | undefined
  /** Tenant queue of the new delivery; undefined if none was queued. */
  readonly queueId?: QueueId
  /** Current delivery cycle of the event; 0 if it was not found. */
  readonly cycle: number
}

/** Maximum events per call. More would hold their locks for too long. */
export const cycleEventsMax = 500
/** Maximum delivery cycle, since the column is a smallint. */
const cycleMax = 32_767

// Prevents deadlocks by the order of locks: waiting pulls, then events by id, day by day, then tenant queues. Locks only those accepted
// events that wait for a pull, so that it does not wait for statements that complete deliveries. The completion of the previous cycle has
// deleted the row of deliveries_due. An entry of failed_deliveries that this statement does not see yet stays until the new cycle ends; the
// index failed_deliveries_id supports its removal. The day is a literal, so that Postgres uses one partition. OFFSET prevents reading whole
// payloads. A repeat finds that the events are already queued.
const queueText = (day: Day) => `
WITH seen AS MATERIALIZED (
  SELECT id, state, cycle, tenant_id, ${destinationOfText('origin')} AS destination FROM events
  WHERE expires_on = '${day}' AND id = ANY($1::text[]) AND ($2::text IS NULL OR tenant_id = $2)
), pulls AS MATERIALIZED (
  SELECT event_id FROM pulls_due WHERE event_id = ANY($1::text[]) ORDER BY event_id FOR UPDATE
), locked AS MATERIALIZED (
  SELECT id, state, cycle, payload_expires_on, origin FROM events
  WHERE expires_on = '${day}' AND id = ANY($1::text[]) AND ($2::text IS NULL OR tenant_id = $2)
    AND (state <> 'accepted' OR id = ANY(ARRAY(SELECT event_id FROM pulls)))
  ORDER BY id FOR UPDATE
), decided AS MATERIALIZED (
  SELECT s.id, s.tenant_id, s.destination, coalesce(l.cycle, s.cycle + CASE s.state WHEN 'accepted' THEN 0 ELSE 1 END) AS cycle, CASE
    WHEN t.id IS NULL OR t.deleted_at IS NOT NULL THEN 'not_found'
    WHEN NOT s.destination = ANY(t.destinations) THEN 'no_callback'
    WHEN l.id IS NULL THEN 'already_queued'
    WHEN l.origin = 'test' THEN 'test_event'
    WHEN NOT l.state = ANY($3::text[]) OR l.cycle <> $5::integer THEN 'changed'
    WHEN l.state = 'verified' AND ${walletStageText} IS DISTINCT FROM 'enabled' THEN 'not_enabled'
    WHEN l.cycle >= ${cycleMax} THEN 'cycles_exhausted'
    WHEN l.payload_expires_on < $4::date OR NOT EXISTS (
      SELECT FROM event_payloads p WHERE p.event_id = l.id AND p.expires_on = l.payload_expires_on OFFSET 0)
      THEN 'payload_expired'
    ELSE 'queued' END AS outcome
  FROM seen s LEFT JOIN locked l ON l.id = s.id LEFT JOIN tenants t ON t.id = s.tenant_id
), revived AS (
  UPDATE events e SET state = 'accepted', cycle = e.cycle + 1, completed_at = NULL FROM decided j
  WHERE j.outcome = 'queued' AND e.id = j.id AND e.expires_on = '${day}'
  RETURNING e.id, e.tenant_id, j.destination, e.expires_on, e.payload_expires_on, e.payload_bytes, e.cycle
), no_failures AS (
  DELETE FROM failed_deliveries WHERE ${isAmongText('revived', 'id', 'id')}
), no_pulls AS (
  DELETE FROM pulls_due WHERE event_id = ANY(ARRAY(SELECT id FROM revived))
), due AS (
  INSERT INTO deliveries_due
    (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, is_retry, due_at)
  SELECT id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, $6::boolean, now() FROM revived
)
SELECT id, outcome, tenant_id, CASE outcome WHEN 'queued' THEN cycle + 1 ELSE cycle END, destination FROM decided`

// Wakes the tenant queues. Runs last, as one statement for all days and in the order of the tenant ids, to prevent deadlocks.
const wakeKeys = 'unnest($1::text[], $2::text[]) AS k(tenant_id, destination)'
const wakeText = `
WITH new_queues AS (
  INSERT INTO tenant_queues (tenant_id, destination, next_due_at) SELECT tenant_id, destination, now() FROM ${wakeKeys}
  ON CONFLICT DO NOTHING
)
${wakeTenantQueuesText(wakeKeys)}`

type ResultRow = [
  id: EventId,
  outcome: CycleOutcome,
  tenantId: TenantId,
  cycle: number,
  destination: DestinationName,
]

/**
 * Begins another delivery cycle for each eligible event; concurrent calls begin only one. Requires a connection in a transaction.
 * @throws RangeError for more than 500 ids; errors of Postgres
 */
export async function beginCycles(
  connection: Queryable,
  { ids, tenantId, state, cycle, isRetry = true }: CycleRequest,
  nowMs: number,
): Promise<CycleResult[]> {
  if (ids.length > cycleEventsMax)
    throw new RangeError(`beginCycles accepts at most ${cycleEventsMax} events per call, got ${ids.length}`)
  const results = new Map<EventId, CycleResult>()
  const queues = new Map<QueueId, DestinationKey>()
  for (const id of ids) results.set(id, { id, outcome: 'not_found', tenantId: undefined, cycle: 0 })
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
        isRetry,
      ],
    })
    for (const [id, outcome, tenant, cycleNow, destination] of rows) {
      const key = { tenantId: tenant, destination }
      const queueId = queueIdOf(key)
      results.set(id, {
        id,
        outcome,
        tenantId: tenant,
        cycle: cycleNow,
        ...(outcome === 'queued' && { queueId }),
      })
      if (outcome === 'queued') queues.set(queueId, key)
    }
  }
  const keys = [...queues.values()]
  if (keys.length > 0)
    await connection.query({
      text: wakeText,
      values: [
        textArrayParam(keys.map((key) => key.tenantId)),
        textArrayParam(keys.map((key) => key.destination)),
      ],
    })
  return [...results.values()]
}

// Skips a delivery that is claimed or due. Uses `clock_timestamp()`, since a call after this transaction began can have made it due.
const hastenText = `
WITH hastened AS (
  UPDATE deliveries_due SET due_at = now()
  WHERE event_id = $1 AND tenant_id = $2 AND due_at > clock_timestamp() AND leased_until <= clock_timestamp()
  RETURNING tenant_id, destination
), notified AS (
  ${wakeTenantQueuesText('hastened')}
)
SELECT FROM hastened`

/**
 * Makes the next attempt of a waiting delivery due now; the attempts after it keep their schedule. Returns false if no delivery waits, such
 * as during an attempt. Call `notifyForwarders` afterwards. @throws errors of Postgres
 */
export async function hastenDelivery(
  connection: Queryable,
  { id, tenantId }: { readonly id: EventId; readonly tenantId: TenantId },
): Promise<boolean> {
  const { rowCount } = await connection.query({ text: hastenText, values: [id, tenantId] })
  return (rowCount ?? 0) > 0
}

/** An event that its provider sent again. */
export interface RequeueCandidate {
  readonly eventId: EventId
  /** Replaces a payload that retention deleted. Without this payload, such an event gets no delivery cycle. */
  readonly payload?: string
  readonly payloadExpiresOn?: Day
}

// Locks all candidates first, by day and id. `beginCycles` locks events in the same order, so the two cannot deadlock.
const lockText = (day: Day) => `
SELECT FROM events WHERE expires_on = '${day}' AND id = ANY($1::text[]) AND state <> 'accepted' ORDER BY id FOR UPDATE`

// Failed events whose payload has expired get the payload of the call that repeats the event. It expires no later than the event.
const restoreText = (day: Day) => `
WITH lost AS MATERIALIZED (
  SELECT e.id, i.payload, least(i.expires_on::date, e.expires_on) AS payload_expires_on
  FROM unnest($1::text[], $2::text[], $3::text[]) AS i(id, payload, expires_on)
  JOIN events e ON e.id = i.id AND e.expires_on = '${day}' AND e.state = 'delivery_failed'
  WHERE e.payload_expires_on < $4::date OR NOT EXISTS (
    SELECT FROM event_payloads p WHERE p.event_id = e.id AND p.expires_on = e.payload_expires_on)
), restored AS (
  UPDATE events e SET payload_bytes = octet_length(l.payload), payload_expires_on = l.payload_expires_on
  FROM lost l WHERE e.id = l.id AND e.expires_on = '${day}'
)
INSERT INTO event_payloads (event_id, expires_on, payload) SELECT id, payload_expires_on, payload FROM lost`

/**
 * Begins another delivery cycle for the candidates whose delivery failed, and returns their ids. Other candidates stay unchanged, so
 * concurrent and repeated calls queue an event only once. Call `notifyForwarders` afterwards.
 * @param candidates at most 500
 * @throws errors of Postgres; then nothing was written
 */
export async function requeueFailed(
  pool: Pool,
  candidates: readonly RequeueCandidate[],
  nowMs: number,
): Promise<EventId[]> {
  const unique = new Map(candidates.map((one) => [one.eventId, one]))
  const tomorrow = dayAfter(nowMs, 0)
  // An event whose expiry day has been reached can be deleted at any time, so it gets neither a payload nor a delivery cycle.
  const kept = unique.values().filter(({ eventId }) => expiryDayOf(eventId) >= tomorrow)
  const byDay = Map.groupBy(kept, ({ eventId }) => expiryDayOf(eventId))
  const days = [...byDay.keys()].sort()
  const requeue = () =>
    withTx(pool, async (client) => {
      for (const day of days) await lockEvents(client, day, byDay.get(day) ?? [])
      for (const day of days) await restorePayloads(client, day, byDay.get(day) ?? [], tomorrow)
      const request = { ids: [...unique.keys()], state: 'delivery_failed', isRetry: false } as const
      return await beginCycles(client, request, nowMs)
    })
  const results = await requeue().catch(async (error: unknown) => {
    if (classifySqlError(error).kind !== 'partition_missing') throw error
    await ensurePartitions(
      pool,
      byDay
        .entries()
        .flatMap(([day, ofDay]) => payloadPartitions(day, ofDay))
        .toArray(),
    )
    return await requeue()
  })
  return results.flatMap(({ id, outcome }) => (outcome === 'queued' ? [id] : []))
}

async function lockEvents(
  client: Queryable,
  day: Day,
  candidates: readonly RequeueCandidate[],
): Promise<void> {
  const ids = textArrayParam(candidates.map(({ eventId }) => eventId))
  await client.query({ text: lockText(checkedDay(day)), values: [ids] })
}

async function restorePayloads(
  client: Queryable,
  day: Day,
  candidates: readonly RequeueCandidate[],
  tomorrow: Day,
): Promise<void> {
  const restorable = candidates.filter(({ payload }) => payload !== undefined)
  if (restorable.length === 0) return
  await client.query({
    text: restoreText(checkedDay(day)),
    values: [
      textArrayParam(restorable.map(({ eventId }) => eventId)),
      textArrayParam(restorable.map(({ payload }) => payload ?? null)),
      textArrayParam(restorable.map(({ payloadExpiresOn }) => payloadExpiresOn ?? day)),
      tomorrow,
    ],
  })
}

function payloadPartitions(day: Day, candidates: readonly RequeueCandidate[]): WantedPartition[] {
  const days = new Set(candidates.flatMap(({ payloadExpiresOn }) => payloadExpiresOn ?? []))
  return [...days, day].map((each) => ({ table: 'event_payloads', day: each < day ? each : day }))
}

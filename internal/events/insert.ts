import type { EventId } from '#internal/base/index.ts'
import {
  ensurePartitions,
  type Pool,
  textArrayParam,
  type WantedPartition,
  writeRows,
} from '#internal/storage/index.ts'
import { requeueFailed } from './cycles.ts'
import type { HandOffPlan, HandOffs } from './hand-off.ts'
import type { Queryable } from './list-source.ts'
import {
  destinationOf,
  destinationOfText,
  originByOf,
  type QueueId,
  queueIdOf,
  queueIdText,
  type ReceivedEvent,
} from './model.ts'
import { updateQueuesText } from './tenant-queue.ts'

const isHandedText = `${queueIdText()} = ANY(ARRAY(SELECT queue_id FROM with_work WHERE is_handed))`
const leaseEndText = "now() + $22::integer * interval '1 ms'"

// One statement and commit for dedupe key, event, payload, and first delivery or waiting pull. The unique dedupe key decides between
// concurrent callers: the statement waits while another transaction inserts the same key, so a conflict means that the original event is
// committed. Rows and tenant queues are sorted to prevent deadlocks. Safe to repeat: existing rows are not changed, and a batch of
// duplicates wakes no tenant queue. Hot: intake in `npm run bench -- webhooks`. It is a single statement for the reason that `claimText`
// states. A delivery that intake hands to a forwarder is inserted under that forwarder's lease (`due`) if its tenant queue has no backlog,
// no suspension and a closed breaker (`clear_queues`: a queue with due rows is itself due). If the hand-off is lost, a claim finds the row:
// its queue is checked when the lease ends, and again later if that check can have missed the row (idle_checks = 0).
const insertText = `
WITH input AS MATERIALIZED (
  SELECT key::uuid, id, tenant_id, provider, source_event_id, raw_type, type, occurred_at::timestamptz, received_at::timestamptz,
    headers, payload, payload_bytes::integer, expires_on::date, payload_expires_on::date, dedupe_expires_on::date, state, origin, origin_by,
    lease, ${destinationOfText('origin')} AS destination
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[], $18::text[], $19::text[], $21::text[])
    AS i(key, id, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers, payload,
      payload_bytes, expires_on, payload_expires_on, dedupe_expires_on, state, origin, origin_by, lease)
), fresh AS (
  INSERT INTO dedupe_keys (key, event_id, expires_on) SELECT key, id, dedupe_expires_on FROM input
  ON CONFLICT DO NOTHING RETURNING event_id
), stored AS (
  INSERT INTO events (id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers,
    payload_bytes, payload_expires_on, state, cycle, over_limit, origin, origin_by)
  SELECT id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers,
    payload_bytes, payload_expires_on, state, 1, id = ANY($17::text[]), origin, origin_by FROM input JOIN fresh ON event_id = id
), payloads AS (
  INSERT INTO event_payloads (event_id, expires_on, payload)
  SELECT id, payload_expires_on, payload FROM input JOIN fresh ON event_id = id
), clear_queues AS MATERIALIZED (
  SELECT ${queueIdText()} AS queue_id FROM tenant_queues
  WHERE tenant_id = ANY(ARRAY(SELECT tenant_id FROM input WHERE lease IS NOT NULL))
    AND next_due_at > now() AND suspended_at IS NULL AND breaker_until = '-infinity'
), due AS (
  INSERT INTO deliveries_due
    (event_id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at, lease, leased_until, claims)
  SELECT id, destination, tenant_id, expires_on, payload_expires_on, payload_bytes, 1, now(), CASE WHEN is_handed THEN lease END,
    CASE WHEN is_handed THEN ${leaseEndText} ELSE '-infinity' END, CASE WHEN is_handed THEN 1 ELSE 0 END
  FROM (SELECT *, lease IS NOT NULL AND ${queueIdText()} = ANY(ARRAY(SELECT queue_id FROM clear_queues)) AS is_handed
    FROM input JOIN fresh ON event_id = id WHERE state = 'accepted' AND id <> ALL($20::text[])) i
  RETURNING event_id, destination, tenant_id, lease IS NOT NULL AS is_handed
), to_pull AS (
  INSERT INTO pulls_due (event_id, tenant_id, expires_on)
  SELECT id, tenant_id, expires_on FROM input JOIN fresh ON event_id = id WHERE id = ANY($20::text[])
), with_work AS MATERIALIZED (
  SELECT tenant_id, destination, ${queueIdText()} AS queue_id, bool_and(is_handed) AS is_handed FROM due
  GROUP BY tenant_id, destination ORDER BY tenant_id, destination
), new_queues AS (
  INSERT INTO tenant_queues (tenant_id, destination, next_due_at)
  SELECT tenant_id, destination, now() FROM with_work WHERE NOT is_handed ON CONFLICT DO NOTHING
), wake_queues AS (
  ${updateQueuesText({
    keys: 'with_work',
    set: `idle_checks = 0, next_due_at = CASE WHEN ${isHandedText} THEN least(next_due_at, ${leaseEndText}) ELSE now() END`,
    condition: `idle_checks > 0 OR next_due_at > CASE WHEN ${isHandedText} THEN ${leaseEndText} ELSE now() END`,
  })}
)
SELECT event_id, event_id = ANY(ARRAY(SELECT event_id FROM due WHERE is_handed)) FROM fresh`

/** Stores events with deliveries or waiting pulls in one commit. Returns the new ids. @param events sorted by `dedupeKey`, no key twice */
export async function insertEvents(
  pool: Queryable,
  events: readonly ReceivedEvent[],
): Promise<ReadonlySet<EventId>> {
  return (await insertAndHandOff(pool, events, noHandOff)).stored
}

const noHandOff: HandOffPlan = { leaseTokens: new Map(), offerNumbers: new Map(), leaseMs: 0 }

/** Stores events like `insertEvents`. A planned delivery gets the lease of its forwarder, unless its queue has a backlog or is blocked. */
export async function insertAndHandOff(
  pool: Queryable,
  events: readonly ReceivedEvent[],
  { leaseTokens, leaseMs }: HandOffPlan,
): Promise<{
  readonly stored: ReadonlySet<EventId>
  readonly handed: ReadonlySet<EventId>
}> {
  const column = (pick: (event: ReceivedEvent) => string | null) => textArrayParam(events.map(pick))
  const { rows } = await pool.query<[EventId, boolean]>({
    name: 'insert_events',
    text: insertText,
    rowMode: 'array',
    values: [
      column(({ dedupeKey }) => dedupeKey),
      column(({ id }) => id),
      column(({ tenantId }) => tenantId),
      column(({ provider }) => provider),
      column(({ sourceEventId }) => sourceEventId),
      column(({ rawType }) => rawType),
      column(({ type }) => type),
      column(({ occurredAtMs }) => new Date(occurredAtMs).toISOString()),
      column(({ receivedAtMs }) => new Date(receivedAtMs).toISOString()),
      column(({ headers }) => headers),
      column(({ payload }) => payload),
      column(({ payloadBytes }) => String(payloadBytes)),
      column(({ expiresOn }) => expiresOn),
      column(({ payloadExpiresOn }) => payloadExpiresOn),
      column(({ dedupeExpiresOn }) => dedupeExpiresOn),
      column(({ state }) => state),
      textArrayParam(events.filter(({ overLimit }) => overLimit).map(({ id }) => id)),
      column(({ origin }) => origin.kind),
      column(({ origin }) => originByOf(origin)),
      textArrayParam(events.filter(({ isPullOnly }) => isPullOnly).map(({ id }) => id)),
      column(({ id }) => leaseTokens.get(id) ?? null),
      leaseMs,
    ],
  })
  return {
    stored: new Set(rows.map(([id]) => id)),
    handed: new Set(rows.flatMap(([id, isHanded]) => (isHanded ? [id] : []))),
  }
}

export function queuesToWake(events: readonly ReceivedEvent[]): QueueId[] {
  const ids = new Set<QueueId>()
  for (const { state, tenantId, origin } of events) {
    if (state === 'accepted') ids.add(queueIdOf({ tenantId, destination: destinationOf(origin.kind) }))
  }
  return [...ids].sort()
}

export function partitionsOf(events: readonly ReceivedEvent[]): WantedPartition[] {
  const wanted = new Map<string, WantedPartition>()
  const add = (one: WantedPartition) => wanted.set(`${one.table} ${one.day}`, one)
  for (const { expiresOn, payloadExpiresOn } of events) {
    add({ table: 'events', day: expiresOn })
    add({ table: 'attempts', day: expiresOn })
    add({ table: 'event_payloads', day: payloadExpiresOn })
  }
  return [...wanted.values()]
}

/** Finds the events with these dedupe keys. Omits keys that retention has removed. Takes no locks. */
export async function findEventsByKey(
  pool: Queryable,
  dedupeKeys: readonly string[],
): Promise<ReadonlyMap<string, EventId>> {
  const { rows } = await pool.query<[string, EventId]>({
    name: 'find_events_by_key',
    text: `SELECT replace(key::text, '-', ''), event_id FROM dedupe_keys WHERE key = ANY($1::text[]::uuid[])`,
    rowMode: 'array',
    values: [textArrayParam(dedupeKeys)],
  })
  return new Map(rows)
}

/**
 * Result of accepting an event. `stored`: the event is committed. `duplicate`: the original event is committed. `queued`: the event is in
 * the spool. `unavailable`: the event was not kept, and the provider must send it again. `refused`: Postgres rejects the event.
 */
export type Acceptance = 'stored' | 'duplicate' | 'queued' | 'unavailable' | 'refused'

/** `completed`: one result per event, in the same order. `unavailable`: it is unknown whether any event was stored. */
export type BatchOutcome =
  | { readonly kind: 'completed'; readonly acceptances: readonly Acceptance[] }
  | { readonly kind: 'unavailable' }

/** Called with an event's result as soon as it is known. */
export type OnCompleted = (event: ReceivedEvent, acceptance: Acceptance) => void

/** Dependencies of `storeBatch`. */
export interface StoreBatchOptions {
  readonly pool: Pool
  /**
   * Called after the commit with the tenant queues that have new events. Must not throw.
   * @param handedQueueIds tenant queues of which every new event was handed to a forwarder
   */
  wake(queueIds: readonly QueueId[], handedQueueIds?: readonly QueueId[]): void
  /** Default: no event is handed off, so all are claimed. */
  readonly handOffs?: HandOffs
  /** Called after the commit with the new events, without duplicates. Must not throw. */
  onStored?(events: readonly ReceivedEvent[]): void
  /** Called once for each rejected event and each failure of Postgres. Must not throw. */
  onError(error: unknown, kind: 'unavailable' | 'refused'): void
  /** If false, `retriesOnRedelivery` is ignored and no duplicate begins a delivery cycle; the spool's drain passes false. Default: true. */
  readonly requeues?: boolean
}

/**
 * Stores a batch and returns each event's result. Reports new events to `onCompleted` right after the commit. Never throws. Safe to repeat.
 * @param events sorted by `dedupeKey`, no key twice
 */
export async function storeBatch(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  onCompleted: OnCompleted = () => undefined,
): Promise<BatchOutcome> {
  const results = await writeRows(events, {
    write: (part) => storePart(options, part, onCompleted),
    createPartitions: (part) => ensurePartitions(options.pool, partitionsOf(part)),
  })
  const errors = new Set<unknown>()
  const acceptances = results.map((each): Acceptance => {
    if (each.kind === 'written') return each.result
    if (each.kind === 'rejected') options.onError(each.error, 'refused')
    else errors.add(each.error)
    return each.kind === 'rejected' ? 'refused' : 'unavailable'
  })
  for (const error of errors) options.onError(error, 'unavailable')
  const isUnavailable = results.every(({ kind }) => kind === 'unavailable')
  return isUnavailable ? { kind: 'unavailable' } : { kind: 'completed', acceptances }
}

async function storePart(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  onCompleted: OnCompleted,
): Promise<Acceptance[]> {
  const plan = options.handOffs?.plan(events) ?? noHandOff
  const { stored, handed } = await insertAndHandOff(options.pool, events, plan)
  const fresh = stored.size === events.length ? events : events.filter(({ id }) => stored.has(id))
  if (handed.size > 0)
    options.handOffs?.send(
      plan,
      fresh.filter(({ id }) => handed.has(id)),
    )
  if (fresh.length > 0) {
    const due = queuesToWake(handed.size === 0 ? fresh : fresh.filter(({ id }) => !handed.has(id)))
    options.wake(due, handed.size === 0 ? [] : queuesToWake(fresh).filter((id) => !due.includes(id)))
  }
  options.onStored?.(fresh)
  return await completeBatch(options, events, stored, onCompleted)
}

/** Reports new events immediately, then finds the originals of duplicates. */
async function completeBatch(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  stored: ReadonlySet<EventId>,
  onCompleted: OnCompleted,
): Promise<Acceptance[]> {
  for (const event of events) if (stored.has(event.id)) onCompleted(event, 'stored')
  const known = events.filter(({ id }) => !stored.has(id))
  if (known.length === 0) return events.map(() => 'stored')
  const acceptances = await revive(options, known)
  return events.map((event) =>
    stored.has(event.id) ? 'stored' : (acceptances.get(event.id) ?? 'unavailable'),
  )
}

/**
 * Requeues the failed originals of duplicates if the tenant opted in, and returns the results of the duplicates: `unavailable` if the
 * original was deleted. Returns an empty map if Postgres fails.
 */
async function revive(
  options: StoreBatchOptions,
  duplicates: readonly ReceivedEvent[],
): Promise<ReadonlyMap<EventId, Acceptance>> {
  try {
    const keys = duplicates.map(({ dedupeKey }) => dedupeKey)
    const originals = await findEventsByKey(options.pool, keys)
    // After a retry, the stored original can be this event: its insert was committed, but the reply of Postgres was lost.
    const acceptanceOf = ({ id, dedupeKey }: ReceivedEvent): Acceptance =>
      originals.get(dedupeKey) === id ? 'stored' : originals.has(dedupeKey) ? 'duplicate' : 'unavailable'
    const others = duplicates.filter((one) => acceptanceOf(one) === 'duplicate' && one.retriesOnRedelivery)
    if ((options.requeues ?? true) && others.length > 0) await requeue(options, others, originals)
    return new Map(duplicates.map((one) => [one.id, acceptanceOf(one)]))
  } catch (error) {
    options.onError(error, 'unavailable')
    return new Map()
  }
}

async function requeue(
  { pool, wake }: StoreBatchOptions,
  duplicates: readonly ReceivedEvent[],
  originals: ReadonlyMap<string, EventId>,
): Promise<void> {
  const candidates = duplicates.flatMap(({ dedupeKey, payload, payloadExpiresOn }) => {
    const eventId = originals.get(dedupeKey)
    return eventId === undefined ? [] : [{ eventId, payload, payloadExpiresOn }]
  })
  const nowMs = Math.max(...duplicates.map(({ receivedAtMs }) => receivedAtMs))
  const requeued = new Set(await requeueFailed(pool, candidates, nowMs))
  if (requeued.size === 0) return
  wake(queuesToWake(duplicates.filter((one) => requeued.has(originals.get(one.dedupeKey) ?? one.id))))
}

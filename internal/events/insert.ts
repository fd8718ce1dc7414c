import type { EventId } from '#internal/base/index.ts'
import { type Pool, textArrayParam, type WantedPartition } from '#internal/storage/index.ts'
import type { ReceivedEvent } from './received-event.ts'
import { wakeTenantQueuesText } from './wake-tenant-queues.ts'

// One statement, so one commit: dedupe key, event, payload, first delivery. The unique key decides between any number of callers;
// a row that another transaction is inserting is waited for, so a conflict means that the original is committed. Rows come
// sorted by key, so that two batches wait for each other in one direction only; so are tenant queues. Repeating it is safe: what is there
// is left alone, and a batch of duplicates wakes no tenant queue.
const insertText = `
WITH input AS MATERIALIZED (
  SELECT key::uuid, id, tenant_id, provider, source_event_id, raw_type, type, occurred_at::timestamptz, received_at::timestamptz,
    headers, payload, payload_bytes::integer, expires_on::date, payload_expires_on::date, dedupe_expires_on::date, state
  FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::text[], $9::text[],
    $10::text[], $11::text[], $12::text[], $13::text[], $14::text[], $15::text[], $16::text[])
    AS i(key, id, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers, payload,
      payload_bytes, expires_on, payload_expires_on, dedupe_expires_on, state)
), fresh AS (
  INSERT INTO dedupe_keys (key, event_id, expires_on) SELECT key, id, dedupe_expires_on FROM input
  ON CONFLICT DO NOTHING RETURNING event_id
), stored AS (
  INSERT INTO events (id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers,
    payload_bytes, payload_expires_on, state, cycle, over_limit)
  SELECT id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, received_at, headers,
    payload_bytes, payload_expires_on, state, 1, id = ANY($17::text[]) FROM input JOIN fresh ON event_id = id
), payloads AS (
  INSERT INTO event_payloads (event_id, expires_on, payload)
  SELECT id, payload_expires_on, payload FROM input JOIN fresh ON event_id = id
), due AS (
  INSERT INTO deliveries_due (event_id, tenant_id, expires_on, payload_expires_on, payload_bytes, cycle, due_at)
  SELECT id, tenant_id, expires_on, payload_expires_on, payload_bytes, 1, now() FROM input JOIN fresh ON event_id = id
  WHERE state = 'accepted'
), with_work AS MATERIALIZED (
  SELECT DISTINCT tenant_id FROM input JOIN fresh ON event_id = id WHERE state = 'accepted' ORDER BY tenant_id
), new_queues AS (
  INSERT INTO tenant_queues (tenant_id, next_due_at) SELECT tenant_id, now() FROM with_work ON CONFLICT DO NOTHING
), woken_queues AS (
  ${wakeTenantQueuesText('= ANY(ARRAY(SELECT tenant_id FROM with_work))')}
)
SELECT event_id FROM fresh`

/**
 * Stores events with their first deliveries in one commit. Gives the ids of those that are new; the others' keys were there.
 * @param events sorted by `dedupeKey`, no key twice
 */
export async function insertEvents(
  pool: Pool,
  events: readonly ReceivedEvent[],
): Promise<ReadonlySet<EventId>> {
  const column = (pick: (event: ReceivedEvent) => string) => textArrayParam(events.map(pick))
  const { rows } = await pool.query<[EventId]>({
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
    ],
  })
  return new Set(rows.map(([id]) => id))
}

/** The tenants whose tenant queues have new work, sorted. */
export function tenantsToWake(events: readonly ReceivedEvent[]): string[] {
  const ids = new Set<string>()
  for (const { state, tenantId } of events) if (state === 'accepted') ids.add(tenantId)
  return [...ids].sort()
}

/** The partitions that rows of these events need, their attempts' included. */
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

/** The events that hold these dedupe keys, by key. A key that is missing ended since it was met. A read, no locks. */
export async function findEventsByKey(
  pool: Pool,
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

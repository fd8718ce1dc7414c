import { type Day, type EventId, expiryDayOf, receivedAtMsOf } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ClaimedDelivery, EventContent } from './claim.ts'

/** A stored event. Its payload can expire earlier than the event. */
export type LoadedEvent =
  | { readonly kind: 'whole'; readonly content: EventContent }
  | { readonly kind: 'payload_expired' }

// Takes no locks. Days are literals, so that Postgres plans and locks only one partition of each table. `id >= … LIMIT 1` can only use the
// primary key. Hot: `npm run bench -- webhooks`.
const loadText = (day: Day, payloadDay: Day) => `
SELECT e.id, e.provider, e.raw_type, e.type, floor(extract(epoch FROM e.occurred_at) * 1000)::bigint, e.headers, p.payload
FROM unnest($1::text[], $2::text[]) AS i(id, tenant_id)
CROSS JOIN LATERAL (SELECT * FROM events WHERE expires_on = '${day}' AND id >= i.id ORDER BY id LIMIT 1) e
LEFT JOIN LATERAL (
  SELECT payload FROM event_payloads WHERE expires_on = '${payloadDay}' AND event_id = i.id OFFSET 0) p ON true
WHERE e.id = i.id AND e.tenant_id = i.tenant_id`

type LoadRow = [
  id: EventId,
  provider: string,
  rawType: string,
  type: string,
  occurredAtMs: number,
  headers: string,
  payload: string | null,
]

/**
 * Reads events with their payloads for delivery. Omits an event if retention deleted it or if it belongs to another tenant than the
 * delivery. Requires a pool with `queueSessionSettings`.
 * @throws errors of Postgres
 */
export async function loadEvents(
  pool: Pool,
  deliveries: readonly ClaimedDelivery[],
): Promise<ReadonlyMap<EventId, LoadedEvent>> {
  const loaded = new Map<EventId, LoadedEvent>()
  const groups = Map.groupBy(deliveries, ({ eventId, payloadExpiresOn }) =>
    [expiryDayOf(eventId), payloadExpiresOn].join('_'),
  )
  for (const [days, group] of groups) {
    const [first] = group
    if (first === undefined) continue
    const { rows } = await pool.query<LoadRow>({
      // The forwarder's pool replaces connections every hour, which also discards the plans of past days.
      name: `load_events_${days}`,
      text: loadText(checkedDay(expiryDayOf(first.eventId)), checkedDay(first.payloadExpiresOn)),
      rowMode: 'array',
      values: [
        textArrayParam(group.map(({ eventId }) => eventId)),
        textArrayParam(group.map(({ tenantId }) => tenantId)),
      ],
    })
    for (const row of rows) loaded.set(row[0], loadedOf(row))
  }
  return loaded
}

function loadedOf([id, provider, rawType, type, occurredAtMs, headers, payload]: LoadRow): LoadedEvent {
  if (payload === null) return { kind: 'payload_expired' }
  const receivedAtMs = receivedAtMsOf(id)
  return { kind: 'whole', content: { provider, rawType, type, occurredAtMs, receivedAtMs, headers, payload } }
}

/**
 * Checks a day before it becomes part of a statement's text.
 * @throws RangeError for an invalid day
 */
export function checkedDay(day: Day): Day {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('not a day')
  return day
}

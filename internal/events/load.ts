import { type Day, type EventId, expiryDayOf, receivedAtMsOf } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { ClaimedDelivery, EventContent } from './claim.ts'

/** A stored event. Its payload may have expired before. */
export type LoadedEvent =
  | { readonly kind: 'whole'; readonly content: EventContent }
  | { readonly kind: 'payload_expired' }

// A read, no locks. Days are literals, so that one partition of each table is planned and locked; an event is the first one from its
// id on, which only the primary key serves. Hot: `npm run bench -- webhooks`.
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
 * Reads events with their payloads for delivery. An event is missing in the result if retention dropped it or if it is not the
 * tenant's of the delivery. Give it a pool made with `queueSessionSettings`. @throws what Postgres throws
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
      // The forwarder's pool replaces connections each hour, and with them the plans of past days.
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

/** Checks a day that goes into the text of a statement. @throws RangeError for anything else */
export function checkedDay(day: Day): Day {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('not a day')
  return day
}

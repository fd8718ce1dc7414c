import { type Day, type EventId, receivedAtMsOf } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import type { EventContent } from './delivery.ts'

/** What is left of an event: all of it, no payload, or nothing. */
export type LoadedEvent =
  | { readonly kind: 'whole'; readonly content: EventContent }
  | { readonly kind: 'payload_expired' | 'expired' }

/** Events whose rows lie in the same partitions. */
export interface LoadRequest {
  readonly expiresOn: Day
  readonly payloadExpiresOn: Day
  readonly eventIds: readonly EventId[]
}

// A read, no locks. Days are literals and the statement is planned anew, so that one partition of each table is planned for.
const loadText = (day: Day, payloadDay: Day) => `
SELECT e.id, e.provider, e.raw_type, e.type, floor(extract(epoch FROM e.occurred_at) * 1000)::bigint, e.headers, p.payload
FROM events e LEFT JOIN event_payloads p ON p.expires_on = '${payloadDay}' AND p.event_id = e.id
WHERE e.expires_on = '${day}' AND e.id = ANY($1::text[])`

type LoadRow = [
  id: EventId,
  provider: string,
  rawType: string,
  type: string,
  occurredAtMs: number,
  headers: string,
  payload: string | null,
]

/** Reads events with their payloads. Those without an entry in what it gives have been dropped. @throws what Postgres throws */
export async function loadEvents(
  pool: Pool,
  request: LoadRequest,
): Promise<ReadonlyMap<EventId, LoadedEvent>> {
  const { rows } = await pool.query<LoadRow>({
    text: loadText(checkedDay(request.expiresOn), checkedDay(request.payloadExpiresOn)),
    rowMode: 'array',
    values: [textArrayParam(request.eventIds)],
  })
  return new Map(rows.map((row) => [row[0], loadedOf(row)]))
}

function loadedOf([id, provider, rawType, type, occurredAtMs, headers, payload]: LoadRow): LoadedEvent {
  if (payload === null) return { kind: 'payload_expired' }
  const receivedAtMs = receivedAtMsOf(id)
  return { kind: 'whole', content: { provider, rawType, type, occurredAtMs, receivedAtMs, headers, payload } }
}

/** A day goes into the text of a statement. @throws RangeError for anything else */
export function checkedDay(day: Day): Day {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(day)) throw new RangeError('not a day')
  return day
}

import type { EventId, TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { type EventScan, type EventSummary, scanBeyond, scanEvents } from './list.ts'
import { type EventFilter, rangeBeyond, rangeOf } from './list-source.ts'
import { withinBytes } from './model.ts'
import { hasCome } from './view.ts'

/** Bounds of a scan. Time is checked between statements. */
const bounds = { eventsMax: 2_000, bytesMax: 16 * 1024 * 1024, msMax: 500 }
/** Maximum bytes of payloads that are examined in one turn of the event loop, which is blocked meanwhile. */
const batchBytes = 512 * 1024
/** Maximum bytes of a payload that is searched. Larger payloads are skipped. */
export const searchedPayloadBytesMax = 1024 * 1024
const scanRows = 200
const scanExaminedMax = 1_000
/** Maximum scans of a search whose filter has no index. */
const scansMax = 12

// Reads payloads by their keys, each in the partition of its day. Takes no locks.
const payloadsText = `
SELECT i.id, p.payload FROM (SELECT id COLLATE "C" AS id, day::date AS day FROM unnest($1::text[], $2::text[]) AS g(id, day)) i
CROSS JOIN LATERAL (SELECT payload FROM event_payloads WHERE event_id = i.id AND expires_on = i.day OFFSET 0) p`

interface PayloadScan {
  readonly events: readonly EventSummary[]
  /** Events of the filter whose payloads were read. */
  readonly examinedCount: number
  /** Events whose payload is too large to be searched, or has expired. */
  readonly skippedCount: number
  /** Last examined event, where the next scan continues; undefined if the scan is complete. */
  readonly examinedTo: EventId | undefined
}

/**
 * Searches the payloads of a tenant with bounded work: at most 2 000 events and 16 MiB. Stops after half a second, at the end of the
 * statement then in progress; the next scan continues. The caller must record the access in the audit log. Requires a pool with
 * `eventReadSettings`.
 * @throws errors of Postgres
 */
export async function scanPayloads(
  pool: Pool,
  {
    filter,
    after,
    matches,
    limit,
  }: {
    readonly filter: EventFilter & { readonly tenantId: TenantId; readonly fromMs: number }
    /** Continues after this event: `examinedTo` of the previous scan. */
    readonly after?: EventId | undefined
    /** Must not throw. */
    matches(payload: string): boolean
    /** Maximum matches, 1 to 100. */
    readonly limit: number
  },
  now: () => number,
): Promise<PayloadScan> {
  const startedAtMs = now()
  const whole = rangeOf(filter, startedAtMs)
  const range = after === undefined ? whole : rangeBeyond(whole, after, 'newest')
  let scan: EventScan = { filter, range, order: 'newest', rowsMax: scanRows, examinedMax: scanExaminedMax }
  const found: EventSummary[] = []
  let [examinedCount, skippedCount, bytes] = [0, 0, 0]
  const stopped = (examinedTo: EventId | undefined): PayloadScan => ({
    events: found,
    examinedCount,
    skippedCount,
    examinedTo,
  })
  for (let scans = 0; scans < scansMax; scans += 1) {
    const { events, searchedTo } = await scanEvents(pool, scan)
    let rest = events
    while (rest.length > 0) {
      const batch = withinBytes(rest, batchBytes)
      rest = rest.slice(batch.length)
      const payloads = await readPayloads(
        pool,
        batch.filter((event) => isSearched(event, startedAtMs)),
      )
      for (const event of batch) {
        const payload = payloads.get(event.id)
        if (payload === undefined) skippedCount += 1
        else examinedCount += 1
        bytes += payload === undefined ? 0 : event.payloadBytes
        if (payload !== undefined && matches(payload)) found.push(event)
        if (found.length >= limit) return stopped(event.id)
      }
      const isSpent =
        examinedCount + skippedCount >= bounds.eventsMax ||
        bytes >= bounds.bytesMax ||
        now() - startedAtMs >= bounds.msMax
      if (isSpent && (rest.length > 0 || searchedTo !== undefined)) return stopped(batch.at(-1)?.id)
    }
    if (searchedTo === undefined) return stopped(undefined)
    scan = scanBeyond(scan, searchedTo)
    if (now() - startedAtMs >= bounds.msMax || scans === scansMax - 1) return stopped(searchedTo)
  }
  return stopped(undefined)
}

/** Excludes payloads that are too large or expired. An expired payload is stored until retention removes it. */
function isSearched({ payloadBytes, payloadExpiresOn }: EventSummary, nowMs: number): boolean {
  return payloadBytes <= searchedPayloadBytesMax && !hasCome(payloadExpiresOn, nowMs)
}

async function readPayloads(pool: Pool, events: readonly EventSummary[]): Promise<Map<EventId, string>> {
  if (events.length === 0) return new Map()
  const { rows } = await pool.query<[id: EventId, payload: string]>({
    name: 'read_payloads_to_search',
    text: payloadsText,
    rowMode: 'array',
    values: [
      textArrayParam(events.map(({ id }) => id)),
      textArrayParam(events.map(({ payloadExpiresOn }) => payloadExpiresOn)),
    ],
  })
  return new Map(rows)
}

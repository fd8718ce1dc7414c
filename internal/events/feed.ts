import {
  type Day,
  dayAfter,
  type EventId,
  expectPageLimit,
  expiryDayOf,
  familyPrefixOf,
  type TenantId,
} from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { checkedDay } from './claim.ts'
import type { Queryable } from './list-source.ts'

/** Position after an event in a tenant's feed, which is ordered by transaction and then id. `transaction`: number in decimal digits. */
export interface FeedPosition {
  readonly transaction: string
  /** Id of an event, or an empty text for the start of the transaction. */
  readonly eventId: string
}

/** Filter of a feed. All members must match. */
export interface FeedFilter {
  /** Names of providers; empty for all. */
  readonly providers: readonly string[]
  /** Normalized types; empty for all. `payment.*` stands for all types that begin with `payment.`. */
  readonly types: readonly string[]
  /** Lowest matching id. An id contains the time of receipt. */
  readonly receivedFrom: string
}

/** An event in a feed. */
export interface FeedEvent {
  readonly eventId: EventId
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
  readonly position: FeedPosition
}

/** Maximum events that a page examines. Examining them takes some milliseconds. */
const examinedMax = 1_000

/**
 * Returns the SQL condition on the events of a subscription: they match its filter and are no verified events, test events or
 * notifications. The four parameters of the filter (`pullableValues`) begin at number `first`.
 */
export function pullableText(first: number): string {
  const [from, providers, types, prefixes] = [first, first + 1, first + 2, first + 3]
  return `state <> 'verified' AND origin NOT IN ('test', 'notification') AND id >= $${from}
    AND (cardinality($${providers}::text[]) = 0 OR provider = ANY($${providers}))
    AND ($${types}::text[] IS NULL OR type = ANY($${types}) OR type ^@ ANY($${prefixes}::text[]))`
}

export function pullableValues({ receivedFrom, providers, types }: FeedFilter): readonly unknown[] {
  const prefixes = types.flatMap((type) => familyPrefixOf(type) ?? [])
  return [receivedFrom, providers, types.length === 0 ? null : types, prefixes]
}

// Omits events of transactions at or above the lowest one in progress: other events could still be added before them. Every transaction
// below has ended, and its events are visible to this statement. Takes no locks.
const feedText = `
WITH examined AS MATERIALIZED (
  SELECT id, stored_by, provider, type, state, origin, payload_expires_on, payload_bytes FROM events
  WHERE tenant_id = $1 AND expires_on >= $2::date AND (stored_by, id) > ($3::xid8, $4)
    AND stored_by < pg_snapshot_xmin(pg_current_snapshot())
  ORDER BY stored_by, id LIMIT ${examinedMax + 1}
), within AS (SELECT * FROM examined ORDER BY stored_by, id LIMIT ${examinedMax})
SELECT n.*, f.* FROM (
  SELECT (SELECT count(*)::integer FROM examined) AS "examinedCount", $3::xid8 >= pg_snapshot_xmax(pg_current_snapshot()) AS "isBeyondEnd",
    (SELECT stored_by::text FROM within ORDER BY stored_by DESC, id DESC LIMIT 1) AS "lastTransaction",
    (SELECT id FROM within ORDER BY stored_by DESC, id DESC LIMIT 1) AS "lastId") n
LEFT JOIN LATERAL (
  SELECT id, stored_by::text AS transaction, to_char(payload_expires_on, 'YYYY-MM-DD') AS "payloadExpiresOn", payload_bytes AS "payloadBytes"
  FROM within
  WHERE ${pullableText(5)}
  ORDER BY within.stored_by, within.id LIMIT $9::bigint) f ON true`

interface FeedRow {
  readonly examinedCount: number
  readonly isBeyondEnd: boolean
  readonly lastTransaction: string | null
  readonly lastId: string | null
  /** Null, like the columns after this one, if no event matches. */
  readonly id: EventId | null
  readonly transaction: string
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
}

interface FeedPage {
  readonly events: readonly FeedEvent[]
  readonly examinedTo: FeedPosition
  readonly hasMore: boolean
  /** True if the position is beyond all transactions, as after a restore into another cluster of Postgres. */
  readonly isBeyondEnd: boolean
}

/**
 * Reads the events of a tenant that come after a position, in the order of the feed. Events that commit later come after every position
 * that is returned. Requires a pool with `eventReadSettings`. @throws RangeError for a limit below 1 or above 100; errors of Postgres
 */
export async function readFeed(
  pool: Pool,
  request: {
    readonly tenantId: TenantId
    readonly filter: FeedFilter
    readonly after: FeedPosition
    readonly limit: number
  },
  nowMs: number,
): Promise<FeedPage> {
  const { tenantId, filter, after, limit } = request
  expectPageLimit(limit, 'events')
  const { rows } = await pool.query<FeedRow>({
    name: 'read_feed',
    text: feedText,
    values: [
      tenantId,
      dayAfter(nowMs, 0),
      after.transaction,
      after.eventId,
      ...pullableValues(filter),
      limit + 1,
    ],
  })
  const [first] = rows
  const found = rows.flatMap(({ id, transaction, payloadExpiresOn, payloadBytes }) =>
    id === null
      ? []
      : [{ eventId: id, payloadExpiresOn, payloadBytes, position: { transaction, eventId: id } }],
  )
  const events = found.slice(0, limit)
  const last = events.at(-1)
  if (found.length > limit && last)
    return { events, examinedTo: last.position, hasMore: true, isBeyondEnd: false }
  const { lastTransaction = null, lastId = null, examinedCount = 0, isBeyondEnd = false } = first ?? {}
  const examinedTo =
    lastTransaction === null || lastId === null ? after : { transaction: lastTransaction, eventId: lastId }
  return { events, examinedTo, hasMore: examinedCount > examinedMax, isBeyondEnd }
}

/** Position before all events of a feed. */
export const feedStart: FeedPosition = { transaction: '0', eventId: '' }

/** Returns a position before all events of unfinished transactions; some events of finished transactions can follow it. */
export async function findFeedEnd(pool: Queryable): Promise<FeedPosition> {
  const { rows } = await pool.query<{ transaction: string }>(
    'SELECT pg_snapshot_xmin(pg_current_snapshot())::text AS transaction',
  )
  return { transaction: rows[0]?.transaction ?? feedStart.transaction, eventId: '' }
}

const readyText = `
SELECT (i.n - 1)::integer AS at FROM unnest($1::text[], $2::text[], $3::text[]) WITH ORDINALITY AS i (tenant_id, transaction, id, n)
WHERE EXISTS (SELECT FROM events e WHERE e.tenant_id = i.tenant_id AND e.expires_on >= $4::date
  AND (e.stored_by, e.id) > (i.transaction::xid8, i.id) AND e.stored_by < pg_snapshot_xmin(pg_current_snapshot()))`

/** Returns the indexes of the feeds with events after their positions, whether they match a filter or not. Takes no locks. */
export async function findReadyFeeds(
  pool: Pool,
  feeds: readonly { readonly tenantId: TenantId; readonly after: FeedPosition }[],
  nowMs: number,
): Promise<readonly number[]> {
  if (feeds.length === 0) return []
  const { rows } = await pool.query<{ at: number }>({
    name: 'find_ready_feeds',
    text: readyText,
    values: [
      textArrayParam(feeds.map(({ tenantId }) => tenantId)),
      textArrayParam(feeds.map(({ after }) => after.transaction)),
      textArrayParam(feeds.map(({ after }) => after.eventId)),
      dayAfter(nowMs, 0),
    ],
  })
  return rows.map(({ at }) => at)
}

/** Returns undefined for an unknown event. @throws errors of Postgres */
export async function findFeedPosition(
  pool: Pool,
  { id, tenantId }: { readonly id: EventId; readonly tenantId: TenantId },
): Promise<FeedPosition | undefined> {
  const { rows } = await pool.query<{ transaction: string }>(
    `SELECT stored_by::text AS transaction FROM events
     WHERE expires_on = '${checkedDay(expiryDayOf(id))}' AND id = $1 AND tenant_id = $2`,
    [id, tenantId],
  )
  return rows[0] && { transaction: rows[0].transaction, eventId: id }
}

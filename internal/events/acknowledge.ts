import { type Day, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import { type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { checkedDay } from './claim.ts'
import { type FeedFilter, type FeedPosition, pullableText, pullableValues } from './feed.ts'

export interface AcknowledgedRange {
  readonly tenantId: TenantId
  /** Filter of the subscription that returned the events. */
  readonly filter: FeedFilter
  readonly after: FeedPosition
  /** Position of the last acknowledged event. */
  readonly upTo: FeedPosition
  /** False if the tenant has no callback: its queued deliveries then wait for a pull like other events. */
  readonly hasCallback: boolean
}

const examinedMax = 1_000

// The last condition lets Postgres use the feed's partial index: from the row comparisons, it does not infer that the column is not null.
const rangeText = `
SELECT id, stored_by::text AS transaction, state = 'accepted' AND ${pullableText(7)} AS "isWaiting" FROM events
WHERE tenant_id = $1 AND expires_on >= $2::date AND (stored_by, id) > ($3::xid8, $4) AND (stored_by, id) <= ($5::xid8, $6)
  AND stored_by <= $5::xid8
ORDER BY stored_by, id LIMIT ${examinedMax}`

// A waiting event becomes processed only if this statement removes its row of `pulls_due`, or of `deliveries_due` if the tenant has no
// callback. Other acknowledgements, replays and forwarders then find no row. Takes locks in the order of completions and replays: day by
// day, and these rows before events. Its deletes name no destination, since an acknowledgement ends the event as a whole.
const processText = (day: Day) => `
WITH pulled AS (
  DELETE FROM pulls_due WHERE event_id = ANY($1::text[]) RETURNING event_id
), undelivered AS (
  DELETE FROM deliveries_due WHERE event_id = ANY($1::text[]) AND NOT $2::boolean RETURNING event_id
), processed AS (
  UPDATE events SET state = 'processed', completed_at = now()
  WHERE expires_on = '${day}' AND state = 'accepted'
    AND id = ANY(ARRAY(SELECT event_id FROM pulled UNION ALL SELECT event_id FROM undelivered))
  RETURNING id, cycle
)
DELETE FROM failed_deliveries WHERE id = ANY(ARRAY(SELECT id FROM processed WHERE cycle > 1))`

/**
 * Sets the state of the waiting events in an acknowledged range to `processed`. Examines at most 1 000 events and returns the position of
 * the last one. Requires a connection with `eventReadSettings`, in the transaction that moves the subscription to that position.
 * @throws errors of Postgres
 */
export async function processAcknowledged(
  tx: PoolClient,
  { tenantId, filter, after, upTo, hasCallback }: AcknowledgedRange,
  nowMs: number,
): Promise<FeedPosition> {
  const { rows } = await tx.query<{ id: EventId; transaction: string; isWaiting: boolean }>({
    name: 'read_acknowledged',
    text: rangeText,
    values: [
      tenantId,
      dayAfter(nowMs, 0),
      after.transaction,
      after.eventId,
      upTo.transaction,
      upTo.eventId,
      ...pullableValues(filter),
    ],
  })
  const waiting = rows.flatMap(({ id, isWaiting }) => (isWaiting ? [id] : []))
  const byDay = Map.groupBy(waiting, expiryDayOf)
  for (const day of [...byDay.keys()].sort())
    await tx.query({
      name: `process_acknowledged_${day}`,
      text: processText(checkedDay(day)),
      values: [textArrayParam(byDay.get(day) ?? []), hasCallback],
    })
  const last = rows.at(-1)
  return last && rows.length === examinedMax ? { transaction: last.transaction, eventId: last.id } : upTo
}

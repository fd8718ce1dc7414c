import { type Day, dayAfter, type EventId, expiryDayOf, type TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { checkedDay } from './claim.ts'
import { type Attempt, parseExchange } from './complete.ts'
import { type EventRow, type EventSummary, selectedColumns, summaryOf } from './list.ts'
import type { EventState } from './list-source.ts'
import { destinationOf, destinationOfText } from './model.ts'

/** A completed delivery attempt. */
export interface AttemptView extends Attempt {
  readonly cycle: number
  readonly attempt: number
}

/** Queue entry of an event whose delivery cycle is in progress. */
export interface DueDelivery {
  /** Due time; while the delivery is claimed, the end of its lease. */
  readonly dueAtMs: number
  readonly isClaimed: boolean
  /** Completed attempts of this delivery cycle. */
  readonly attemptCount: number
}

/** An event with its attempts and its queue entry, without its payload. */
export interface EventView {
  readonly event: EventSummary
  /** Headers as JSON text: an object whose values are strings. */
  readonly headers: string
  readonly hasPayload: boolean
  /** The latest 200 attempts, oldest first. */
  readonly attempts: readonly AttemptView[]
  readonly hasEarlierAttempts: boolean
  readonly delivery: DueDelivery | undefined
}

export interface EventPlace {
  readonly id: EventId
  /** Default: any tenant. */
  readonly tenantId?: TenantId
}

/** `unknown`: the event does not exist. */
export type PayloadRead =
  | { readonly kind: 'payload'; readonly payload: string; readonly event: EventSummary }
  | { readonly kind: 'expired' | 'unknown' }

/** Maximum attempts that are read with an event. */
export const shownAttemptsMax = 200

interface ViewRow extends EventRow {
  readonly headers: string
  readonly dueAtMs: number | null
  readonly isClaimed: boolean
  readonly attemptCount: number | null
  /** Only `progressText` selects this column and the next two. */
  readonly lastAttempt?: number | null
  readonly lastStatus?: number | null
  readonly lastCause?: string | null
}

// Reads rows by their keys, in the partition of the id's day. Takes no locks.
const viewText = (day: Day) => `
SELECT e.headers, floor(extract(epoch FROM greatest(d.due_at, d.leased_until)) * 1000)::bigint AS "dueAtMs",
  d.leased_until > now() AS "isClaimed", d.attempts AS "attemptCount",
  ${selectedColumns}
FROM events e LEFT JOIN deliveries_due d ON d.event_id = e.id AND d.destination = ${destinationOfText('e.origin')}
WHERE e.expires_on = '${checkedDay(day)}' AND e.id = $1 AND ($2::text IS NULL OR e.tenant_id = $2)`

/** Returns undefined if the event is unknown, expired or another tenant's. @throws errors of Postgres */
export async function readEvent(
  pool: Pool,
  place: EventPlace,
  nowMs: number,
): Promise<EventView | undefined> {
  const row = await readRow(pool, place, nowMs)
  if (row === undefined) return undefined
  const [attempts, payload] = await Promise.all([
    readAttempts(pool, row.event),
    readPayloadOf(pool, row.event, nowMs, 'event_id'),
  ])
  return {
    ...row,
    hasPayload: payload !== undefined,
    attempts: attempts.slice(0, shownAttemptsMax).toReversed(),
    hasEarlierAttempts: attempts.length > shownAttemptsMax,
  }
}

/** Position of an attempt among the attempts of its event: delivery cycle and number. */
export type AttemptPlace = Pick<AttemptView, 'cycle' | 'attempt'>

/**
 * Reads attempts by place, latest first, and omits unknown ones. Returns undefined if the event is unknown, expired or another tenant's.
 * @throws errors of Postgres
 */
export async function readAttemptsAt(
  pool: Pool,
  place: EventPlace & { readonly attempts: readonly AttemptPlace[] },
  nowMs: number,
): Promise<Pick<EventView, 'event' | 'headers' | 'attempts'> | undefined> {
  const row = await readRow(pool, place, nowMs)
  if (row === undefined) return undefined
  return {
    event: row.event,
    headers: row.headers,
    attempts: await readAttempts(pool, row.event, place.attempts),
  }
}

/** Lists the places of the latest 200 attempts of an event, oldest first, from their key. @throws errors of Postgres */
export async function listAttemptPlaces(
  pool: Pool,
  { id, origin }: Pick<EventSummary, 'id' | 'origin'>,
): Promise<AttemptPlace[]> {
  const { rows } = await pool.query<AttemptPlace>(
    `SELECT cycle, attempt FROM attempts WHERE expires_on = '${checkedDay(expiryDayOf(id))}' AND event_id = $1 AND destination = $2
     ORDER BY cycle DESC, attempt DESC LIMIT ${shownAttemptsMax}`,
    [id, destinationOf(origin.kind)],
  )
  return rows.toReversed()
}

/** An event in its delivery cycle, without headers, payload and answers. */
export interface DeliveryProgress extends Pick<EventView, 'event' | 'delivery'> {
  /** Last completed attempt of the cycle. */
  readonly lastAttempt: Pick<AttemptView, 'attempt' | 'status' | 'cause'> | undefined
}

const progressText = (day: Day) => `
SELECT v.*, a.attempt AS "lastAttempt", a.status AS "lastStatus", a.cause AS "lastCause" FROM (${viewText(day)}) v
LEFT JOIN LATERAL (
  SELECT attempt, status, cause FROM attempts WHERE expires_on = '${checkedDay(day)}' AND event_id = v.id
    AND destination = ${destinationOfText('v.origin')} AND cycle = v.cycle
  ORDER BY attempt DESC LIMIT 1) a ON true`

/** Returns undefined if the event is unknown, expired or another tenant's. @throws errors of Postgres */
export async function readProgress(
  pool: Pool,
  place: EventPlace,
  nowMs: number,
): Promise<DeliveryProgress | undefined> {
  const row = await readRow(pool, place, nowMs, progressText)
  return row && { event: row.event, delivery: row.delivery, lastAttempt: row.lastAttempt }
}

/**
 * Reads the payload of an event, as received. The caller must record the access in the audit log.
 * @param charsMax maximum characters to read from the start of the payload; default all
 * @throws errors of Postgres
 */
export async function readPayload(
  pool: Pool,
  place: EventPlace,
  nowMs: number,
  charsMax?: number,
): Promise<PayloadRead> {
  const row = await readRow(pool, place, nowMs)
  if (row === undefined) return { kind: 'unknown' }
  const { event } = row
  const column = charsMax === undefined ? 'payload' : (`left(payload, ${Math.floor(charsMax)})` as const)
  const payload = await readPayloadOf(pool, event, nowMs, column)
  return payload === undefined ? { kind: 'expired' } : { kind: 'payload', payload, event }
}

async function readRow(
  pool: Pool,
  { id, tenantId }: EventPlace,
  nowMs: number,
  textOf = viewText,
): Promise<(DeliveryProgress & Pick<EventView, 'headers'>) | undefined> {
  const day = expiryDayOf(id)
  if (hasCome(day, nowMs)) return undefined
  const { rows } = await pool.query<ViewRow>(textOf(day), [id, tenantId ?? null])
  if (rows[0] === undefined) return undefined
  const {
    headers,
    dueAtMs,
    isClaimed,
    attemptCount,
    lastAttempt: attempt,
    lastStatus,
    lastCause,
    ...columns
  } = rows[0]
  const delivery = dueAtMs === null ? undefined : { dueAtMs, isClaimed, attemptCount: attemptCount ?? 0 }
  const lastAttempt =
    attempt === null || attempt === undefined
      ? undefined
      : { attempt, status: lastStatus ?? null, cause: lastCause ?? null }
  return { event: summaryOf(columns), headers, delivery, lastAttempt }
}

async function readAttempts(
  pool: Pool,
  { id, origin }: EventSummary,
  only?: readonly AttemptPlace[],
): Promise<AttemptView[]> {
  const { rows } = await pool.query<Omit<AttemptView, 'exchange'> & { readonly exchange: string | null }>({
    text: `SELECT cycle, attempt, floor(extract(epoch FROM started_at) * 1000)::bigint AS "startedAtMs",
        duration_ms AS "durationMs", outcome, status, cause, answer, exchange
      FROM attempts WHERE expires_on = '${checkedDay(expiryDayOf(id))}' AND event_id = $1 AND destination = $2
        ${only ? 'AND (cycle, attempt) IN (SELECT * FROM unnest($3::smallint[], $4::smallint[]))' : ''}
      ORDER BY cycle DESC, attempt DESC LIMIT ${shownAttemptsMax + 1}`,
    values: [
      id,
      destinationOf(origin.kind),
      ...(only ? [only.map(({ cycle }) => cycle), only.map(({ attempt }) => attempt)] : []),
    ],
  })
  return rows.map((row) => ({ ...row, exchange: parseExchange(row.exchange) }))
}

// An expired payload counts as removed.
async function readPayloadOf(
  pool: Pool,
  { id, payloadExpiresOn }: EventSummary,
  nowMs: number,
  column: 'payload' | `left(payload, ${number})` | 'event_id',
): Promise<string | undefined> {
  if (hasCome(payloadExpiresOn, nowMs)) return undefined
  const { rows } = await pool.query<[string]>({
    text: `SELECT ${column} FROM event_payloads WHERE expires_on = '${checkedDay(payloadExpiresOn)}' AND event_id = $1`,
    rowMode: 'array',
    values: [id],
  })
  return rows[0]?.[0]
}

/** True if a day (UTC) has begun. Data that expire on such a day count as removed, even before retention removes them. */
export function hasCome(day: Day, nowMs: number): boolean {
  return day < dayAfter(nowMs, 0)
}

export interface EventStateRow {
  readonly id: EventId
  readonly cycle: number
  readonly state: EventState
}

const idsMax = 1_000

/**
 * Reads the states of events, without deleted and expired ones. One statement with a part for each day of expiry, so that Postgres plans
 * one partition per part: planning and pruning all partitions takes three times as long. Takes no locks.
 * @param ids at most 1 000
 * @throws RangeError for more ids; errors of Postgres
 */
export async function readEventStates(
  pool: Pool,
  ids: readonly EventId[],
  nowMs: number,
): Promise<EventStateRow[]> {
  if (ids.length > idsMax)
    throw new RangeError(`the states of at most ${idsMax} events can be read, got ${ids.length}`)
  const byDay = [...Map.groupBy(ids, expiryDayOf)].filter(([day]) => !hasCome(day, nowMs))
  if (byDay.length === 0) return []
  const parts = byDay.map(
    ([day], nth) =>
      `SELECT id, cycle, state FROM events WHERE expires_on = '${checkedDay(day)}' AND id = ANY($${nth + 1}::text[])`,
  )
  const { rows } = await pool.query<EventStateRow>(
    parts.join(' UNION ALL '),
    byDay.map(([, ofDay]) => textArrayParam(ofDay)),
  )
  return rows
}

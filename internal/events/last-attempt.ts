import { type EventId, expiryDayOf } from '#internal/base/index.ts'
import { textArrayParam } from '#internal/storage/index.ts'
import type { EventSummary } from './list.ts'
import type { Queryable } from './list-source.ts'
import { destinationOf, destinationOfText } from './model.ts'

/** Statuses of responses to filter by: one status (`404`), a class of statuses (`5xx`), or `none` for no response. */
export type StatusFilter = string & { readonly __brand: 'StatusFilter' }

/** Pattern of a `StatusFilter`, the same in every dialect of regular expressions. */
export const statusFilterPattern = '^([1-5][0-9][0-9]|[1-5]xx|none)$'

const statusFilterForm = new RegExp(statusFilterPattern)

/** Parses a status filter in upper or lower case. Returns undefined for any other text. */
export function parseStatusFilter(text: string): StatusFilter | undefined {
  const lower = text.toLowerCase()
  return statusFilterForm.test(lower) ? (lower as StatusFilter) : undefined
}

export function isFailureStatus(status: StatusFilter): boolean {
  return !status.startsWith('2')
}

/** Maximum of `slowerThanMs`: longer than any attempt takes. */
export const slowerThanMsMax = 3_600_000

/** Conditions on the last attempt in any delivery cycle. An event without attempts matches none. */
export interface LastAttemptFilter {
  readonly status?: StatusFilter
  /** Matches attempts that took longer. */
  readonly slowerThanMs?: number
}

/** Returns SQL conditions on an event `e`, which take microseconds per event. `add` adds a parameter and returns its placeholder. */
export function lastAttemptConditions(
  {
    status,
    slowerThanMs,
  }: { readonly [Name in keyof LastAttemptFilter]: LastAttemptFilter[Name] | undefined },
  add: (value: unknown) => string,
): readonly string[] {
  const conditions: Readonly<Record<keyof LastAttemptFilter, string | undefined>> = {
    status: status === undefined ? undefined : statusCondition(status, add),
    slowerThanMs: slowerThanMs === undefined ? undefined : `l.duration_ms > ${add(slowerThanMs)}::integer`,
  }
  const wanted = Object.values(conditions).filter((each) => each !== undefined)
  if (wanted.length === 0) return []
  return [
    `EXISTS (SELECT FROM (${lastAttemptText('status, duration_ms', { id: 'e.id', day: 'e.expires_on', destination: destinationOfText('e.origin') })}) l WHERE ${wanted.join(' AND ')})`,
  ]
}

function statusCondition(status: StatusFilter, add: (value: unknown) => string): string {
  if (status === 'none') return 'l.status IS NULL'
  const [low, high] = [Number(status.replace('xx', '00')), Number(status.replace('xx', '99'))]
  return `l.status BETWEEN ${add(low)}::smallint AND ${add(high)}::smallint`
}

function lastAttemptText(
  columns: string,
  { id, day, destination }: { readonly id: string; readonly day: string; readonly destination: string },
): string {
  return `SELECT ${columns} FROM attempts a WHERE a.event_id = ${id} AND a.destination = ${destination} AND a.expires_on = ${day}
    ORDER BY a.cycle DESC, a.attempt DESC LIMIT 1`
}

export interface DeliveryFacts {
  /** Completed attempts of the event's delivery cycle. */
  readonly attemptCount: number
  /** Last status in any delivery cycle; null without an attempt or without a response. */
  readonly lastStatus: number | null
  /** Reason for a missing response to the last attempt, or for the failure of the event. */
  readonly lastCause: string | null
  /** Null if no attempt was made. */
  readonly lastDurationMs: number | null
  /** Earliest time; a suspension, an open breaker or a pause can delay the attempt. Null if none is planned, and during an attempt. */
  readonly nextAttemptAtMs: number | null
}

/** An event with the facts of its delivery. */
export type ListedEvent = EventSummary & DeliveryFacts

// Reads by key, in one statement for a page. Takes no locks.
const factsText = `
SELECT i.id, a.cycle, coalesce(a.attempt, 0) AS attempt, a.status AS "lastStatus", a.cause AS "lastCause",
  a.duration_ms AS "lastDurationMs",
  CASE WHEN d.leased_until <= now() THEN floor(extract(epoch FROM d.due_at) * 1000)::bigint END AS "nextAttemptAtMs"
FROM (SELECT id COLLATE "C" AS id, day::date AS day, destination COLLATE "C" AS destination
  FROM unnest($1::text[], $2::text[], $3::text[]) AS g(id, day, destination)) i
LEFT JOIN LATERAL (
  ${lastAttemptText('cycle, attempt, status, cause, duration_ms', { id: 'i.id', day: 'i.day', destination: 'i.destination' })}) a ON true
LEFT JOIN LATERAL (
  SELECT due_at, leased_until FROM deliveries_due WHERE event_id = i.id AND destination = i.destination) d ON true`

interface FactsRow extends Omit<DeliveryFacts, 'attemptCount'> {
  readonly id: EventId
  readonly cycle: number | null
  readonly attempt: number
}

/**
 * Adds the facts of their delivery to events. The facts may be newer than the events. Requires a connection with `eventReadSettings`.
 * @param events at most 100
 * @throws errors of Postgres
 */
export async function withDeliveryFacts(
  connection: Queryable,
  events: readonly EventSummary[],
): Promise<ListedEvent[]> {
  if (events.length === 0) return []
  const ids = events.map(({ id }) => id)
  const { rows } = await connection.query<FactsRow>({
    name: 'read_delivery_facts',
    text: factsText,
    values: [
      textArrayParam(ids),
      textArrayParam(ids.map(expiryDayOf)),
      textArrayParam(events.map(({ origin }) => destinationOf(origin.kind))),
    ],
  })
  const found = new Map(rows.map(({ id, ...facts }) => [id, facts]))
  return events.map((event) => {
    const { cycle = null, attempt = 0, ...facts } = found.get(event.id) ?? {}
    return { ...event, ...noFacts, ...facts, attemptCount: cycle === event.cycle ? attempt : 0 }
  })
}

const noFacts = { lastStatus: null, lastCause: null, lastDurationMs: null, nextAttemptAtMs: null }

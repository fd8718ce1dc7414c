import { type Day, type EventId, receivedAtMsOf, type TenantId } from '#internal/base/index.ts'
import { type EventState, rangeBeyond } from './event-filter.ts'
import {
  chooseSource,
  type EventSource,
  eventColumns,
  type Queryable,
  type SourceRequest,
} from './event-source.ts'

/** An event without its texts. */
export interface EventSummary {
  readonly id: EventId
  readonly tenantId: TenantId
  readonly provider: string
  readonly sourceEventId: string
  readonly rawType: string
  readonly type: string
  /** Milliseconds since the epoch, as are all times here. */
  readonly occurredAtMs: number
  readonly receivedAtMs: number
  readonly payloadBytes: number
  /** The day on which the payload may go. */
  readonly payloadExpiresOn: Day
  readonly state: EventState
  /** Which walk through the schedule of attempts, 1 for the first. */
  readonly round: number
  /** When its last delivery cycle ended; null while one is under way. */
  readonly settledAtMs: number | null
}

/** Which events are walked, and how far. */
export interface EventScan extends SourceRequest {
  /** Events that are given. */
  readonly rowsMax: number
}

/** Events in order, and behind which id to go on; undefined: there are no more. */
export interface ScannedEvents {
  readonly events: readonly EventSummary[]
  readonly searchedTo: EventId | undefined
}

/**
 * The session settings that reads of events are planned with: by indexes alone, in their order. A day that is new, or that nobody
 * counted yet, looks cheap to read whole, until it is not.
 */
export const eventReadSettings = {
  jit: 'off',
  plan_cache_mode: 'force_generic_plan',
  enable_seqscan: 'off',
  enable_bitmapscan: 'off',
  enable_hashjoin: 'off',
  enable_mergejoin: 'off',
  enable_sort: 'off',
  enable_incremental_sort: 'off',
} as const

/** What is selected of an event `e` for `summaryOf`. */
export const selectedColumns = `e.id, e.tenant_id, e.provider, e.source_event_id, e.raw_type, e.type,
  floor(extract(epoch FROM e.occurred_at) * 1000)::bigint, e.payload_bytes, to_char(e.payload_expires_on, 'YYYY-MM-DD'), e.state,
  e.cycle, floor(extract(epoch FROM e.completed_at) * 1000)::bigint`

/** A row of `selectedColumns`. */
export type EventRow = [
  id: EventId,
  tenantId: TenantId,
  provider: string,
  sourceEventId: string,
  rawType: string,
  type: string,
  occurredAtMs: number,
  payloadBytes: number,
  payloadExpiresOn: Day,
  state: EventState,
  round: number,
  settledAtMs: number | null,
]

/**
 * Walks events in the order of their receipt, within a bounded amount of work: what no index knows is asked of `examinedMax`
 * events at most, so that fewer may be found than there are. Give it a connection with `eventReadSettings`. A
 * read, no locks. @throws whatever Postgres throws
 */
export async function scanEvents(connection: Queryable, scan: EventScan): Promise<ScannedEvents> {
  const source = await chooseSource(connection, scan)
  const { kind, conditions } = source
  // Whatever comes or goes meanwhile, a page that all candidates belong to ends where it ends.
  const isOneStatement = conditions.length === 0 && scan.rowsMax < scan.examinedMax
  return kind === 'events' || (kind === 'entries' && isOneStatement)
    ? await walkEvents(connection, source, scan)
    : await walkFound(connection, source, scan)
}

/** The same walk, from behind an id on. Pure. */
export function scanBeyond(scan: EventScan, id: string): EventScan {
  return { ...scan, range: rangeBeyond(scan.range, id, scan.order) }
}

// Rows come in the order of the index, and no more of them are read than are needed. Where they are too few, another statement
// asks how far the walk came; an event that was stored meanwhile only makes it shorter, so none is left out. No locks.
async function walkEvents(
  connection: Queryable,
  { candidates, sorted, conditions, values, candidateValuesCount }: EventSource,
  { rowsMax, examinedMax }: EventScan,
): Promise<ScannedEvents> {
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  const order = `ORDER BY ${sorted.map((each) => `e.${each}`).join(', ')}`
  const rows = await read<EventRow>(
    connection,
    `SELECT ${selectedColumns} FROM (${candidates}) e ${where} ${order} LIMIT $${values.length + 1}::bigint`,
    [...values, rowsMax + 1],
  )
  const events = rows.slice(0, rowsMax).map(summaryOf)
  if (rows.length > rowsMax) return { events, searchedTo: events.at(-1)?.id }
  if (conditions.length === 0 && rowsMax < examinedMax) return { events, searchedTo: undefined }
  const last = await read<[EventId]>(
    connection,
    `SELECT e.id FROM (${candidates}) e ${order} LIMIT 1 OFFSET $${candidateValuesCount + 1}::bigint`,
    [...values.slice(0, candidateValuesCount), examinedMax - 1],
  )
  return { events, searchedTo: last[0]?.[0] }
}

// One statement, since rows of the queue and entries of what failed come and go: what was looked at, and of it the first that are
// meant; ids each by their key in their day. No locks.
async function walkFound(
  connection: Queryable,
  { kind, candidates, sorted, conditions, values }: EventSource,
  { rowsMax, examinedMax }: EventScan,
): Promise<ScannedEvents> {
  const where = conditions.length === 0 ? '' : `WHERE ${conditions.join(' AND ')}`
  const order = `ORDER BY ${sorted.map((each) => `c.${each}`).join(', ')}`
  const [limit, offset] = [values.length + 1, values.length + 2]
  const event =
    kind === 'entries'
      ? 'SELECT c.*'
      : `SELECT ${eventColumns} FROM events WHERE id = c.id AND expires_on = c.expires_on OFFSET 0`
  const rows = await read<[last: EventId | null, ...EventRow]>(
    connection,
    `WITH c AS MATERIALIZED (${candidates})
    SELECT b.last, f.* FROM (SELECT (SELECT c.id FROM c ${order} LIMIT 1 OFFSET $${offset}::bigint) AS last) b
    LEFT JOIN LATERAL (
      SELECT ${selectedColumns} FROM c CROSS JOIN LATERAL (${event}) e
      ${where} ${order} LIMIT $${limit}::bigint) f ON true`,
    [...values, rowsMax + 1, examinedMax - 1],
  )
  const found = rows.flatMap(([, ...row]) => (row[0] === null ? [] : [summaryOf(row)]))
  const events = found.slice(0, rowsMax)
  if (found.length > rowsMax) return { events, searchedTo: events.at(-1)?.id }
  return { events, searchedTo: rows[0]?.[0] ?? undefined }
}

/** Prepared under a name of its own, so that it is planned once a session. There are some dozens of texts. */
async function read<Row extends unknown[]>(
  connection: Queryable,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  const name = `events_${Bun.hash(text).toString(36)}`
  return (await connection.query<Row>({ name, text, rowMode: 'array', values: [...values] })).rows
}

/** Makes an event of its row. Pure. */
export function summaryOf(row: EventRow): EventSummary {
  const [id, tenantId, provider, sourceEventId, rawType, type, occurredAtMs, payloadBytes] = row
  const [, , , , , , , , payloadExpiresOn, state, round, settledAtMs] = row
  return {
    ...{ id, tenantId, provider, sourceEventId, rawType, type, occurredAtMs, payloadBytes },
    ...{ payloadExpiresOn, state, round, settledAtMs, receivedAtMs: receivedAtMsOf(id) },
  }
}

import {
  type Day,
  type EventId,
  expectPageLimit,
  receivedAtMsOf,
  type TenantId,
} from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import {
  chooseSource,
  type EventFilter,
  type EventSource,
  type EventState,
  eventColumns,
  type Queryable,
  rangeBeyond,
  rangeOf,
  type SourceRequest,
} from './list-source.ts'
import { type EventOrigin, type OriginKind, originOf, ownProvider } from './model.ts'

/** Request for a page of events. */
export interface EventListRequest extends EventFilter {
  readonly id?: EventId
  /** The provider's own id. Requires `tenantId` or `sourceTenants`. */
  readonly sourceEventId?: string
  /** Tenants in which `sourceEventId` is searched, at most `sourceTenantsMax`. Default: `tenantId`, with built-in providers only. */
  readonly sourceTenants?: readonly SourceTenant[]
  /** Lists events older than this one: `next` of the previous page. */
  readonly after?: EventId
  /** Maximum events, 1 to 100. */
  readonly limit: number
}

/** A tenant whose events are searched for a provider's id: events of built-in providers and of the declared providers listed here. */
export interface SourceTenant {
  readonly id: TenantId
  /** Names of declared providers as events have them, without aliases. */
  readonly declaredProviders: readonly string[]
}

/** A page of events, newest first. */
export interface EventPage {
  readonly events: readonly EventSummary[]
  /** Cursor of the next page; undefined on the last one. A page that reached its maximum of examined events can have few events or none. */
  readonly next: EventId | undefined
}

/** Maximum events that a page examines if no index covers its filter. Examining them takes some milliseconds. */
const pageExaminedMax = 1_000

/**
 * Lists events by filter, newest first, without expired events. Indexes cover accepted and failed events, and events by tenant, type or
 * provider, or by tenant with type or provider. Other filters examine at most 1 000 events per page. Requires a pool with
 * `eventReadSettings`.
 * @throws RangeError for a limit above 100 or a `sourceEventId` without tenants; errors of Postgres
 */
export async function listEvents(pool: Pool, request: EventListRequest, nowMs: number): Promise<EventPage> {
  const { id, sourceEventId, after, limit } = request
  expectPageLimit(limit, 'events')
  const ofSource = sourceEventId === undefined ? undefined : await idsOfSource(pool, request)
  const given = [request.ids, id === undefined ? undefined : [id], ofSource].filter(
    (each) => each !== undefined,
  )
  const [first, ...others] = given
  const filter: EventFilter = {
    ...request,
    ...(first && { ids: first.filter((one) => others.every((ids) => ids.includes(one))) }),
  }
  const whole = rangeOf(filter, nowMs)
  const range = after === undefined ? whole : rangeBeyond(whole, after, 'newest')
  const page = await scanEvents(pool, {
    filter,
    range,
    order: 'newest',
    rowsMax: limit,
    examinedMax: pageExaminedMax,
  })
  return { events: page.events, next: page.searchedTo }
}

/** Maximum tenants that one search for a provider's id covers. */
export const sourceTenantsMax = 10_000
/** Maximum tenants per statement. Each of them takes a search in an index for each provider. */
const sourceTenantsPerStatement = 2_000
/** Maximum events with the same provider's id, in different tenants, per page. */
const sourceEventsMax = 1_000

// Computes dedupe keys as intake does: of each tenant with every provider of $3, and with its declared providers of $6.
const sourceText = `
SELECT k.event_id FROM (
  SELECT t.id, p.name FROM unnest($1::text[]) AS t(id) CROSS JOIN unnest($3::text[]) AS p(name)
  UNION ALL SELECT o.id, o.name FROM unnest($5::text[], $6::text[]) AS o(id, name)) s
CROSS JOIN LATERAL (SELECT event_id FROM dedupe_keys WHERE key = encode(substring(sha256(convert_to(
  s.id || E'\\n' || s.name || E'\\n' || $2::text, 'UTF8')) FOR 16), 'hex')::uuid) k
WHERE $4::text IS NULL OR k.event_id < $4`

async function idsOfSource(
  pool: Pool,
  { sourceEventId, tenantId, sourceTenants, provider, after }: EventListRequest,
): Promise<EventId[]> {
  const tenants = sourceTenants ?? (tenantId && [{ id: tenantId, declaredProviders: [] }])
  if (tenants === undefined) throw new RangeError('filter sourceEventId requires tenantId or sourceTenants')
  if (tenants.length > sourceTenantsMax)
    throw new RangeError(`event filter sourceEventId covers at most ${sourceTenantsMax} tenants`)
  const names = provider === undefined ? [...providerNames, ownProvider] : [provider]
  const found: EventId[] = []
  for (let start = 0; start < tenants.length; start += sourceTenantsPerStatement) {
    const some = tenants.slice(start, start + sourceTenantsPerStatement)
    const declared =
      provider === undefined
        ? some.flatMap(({ id, declaredProviders }) => declaredProviders.map((name) => [id, name] as const))
        : []
    const { rows } = await pool.query<[EventId]>({
      name: 'find_events_of_source',
      text: sourceText,
      rowMode: 'array',
      values: [
        textArrayParam(some.map(({ id }) => id)),
        sourceEventId,
        names,
        after ?? null,
        textArrayParam(declared.map(([id]) => id)),
        textArrayParam(declared.map(([, name]) => name)),
      ],
    })
    found.push(...rows.map(([id]) => id))
  }
  return found.toSorted().toReversed().slice(0, sourceEventsMax)
}

/** An event without headers and payload. */
export interface EventSummary {
  readonly id: EventId
  readonly tenantId: TenantId
  readonly provider: string
  readonly sourceEventId: string
  readonly providerRawType: string
  readonly type: string
  readonly occurredAtMs: number
  readonly receivedAtMs: number
  readonly payloadBytes: number
  readonly payloadExpiresOn: Day
  readonly state: EventState
  readonly origin: EventOrigin
  /** Number of the delivery cycle; 1 for the first. */
  readonly cycle: number
  /** Completion time of the last delivery cycle; null while one is in progress. */
  readonly completedAtMs: number | null
}

/** Scan that reads at most `rowsMax` events. */
export interface EventScan extends SourceRequest {
  readonly rowsMax: number
}

/** Events in order. `searchedTo` is the id after which the next scan continues; undefined at the end. */
export interface ScannedEvents {
  readonly events: readonly EventSummary[]
  readonly searchedTo: EventId | undefined
}

/**
 * Session settings for reading events: statements are prepared once and use indexes in their order. Without them Postgres could plan a
 * sequential scan of a new partition without statistics and keep that plan.
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

/** Columns of an event `e` for `summaryOf`. */
export const selectedColumns = `e.id, e.tenant_id AS "tenantId", e.provider, e.source_event_id AS "sourceEventId",
  e.raw_type AS "providerRawType", e.type, floor(extract(epoch FROM e.occurred_at) * 1000)::bigint AS "occurredAtMs",
  e.payload_bytes AS "payloadBytes", to_char(e.payload_expires_on, 'YYYY-MM-DD') AS "payloadExpiresOn", e.state, e.cycle,
  floor(extract(epoch FROM e.completed_at) * 1000)::bigint AS "completedAtMs", e.origin, e.origin_by AS "originBy"`

export interface EventRow extends Omit<EventSummary, 'receivedAtMs' | 'origin'> {
  readonly origin: OriginKind
  readonly originBy: string | null
}

/**
 * Reads events in the order of receipt with limited work: checks conditions that the index does not cover on at most `examinedMax` events,
 * so it can return fewer events than match. Requires a connection with `eventReadSettings`. Takes no locks.
 * @throws errors of Postgres
 */
export async function scanEvents(connection: Queryable, scan: EventScan): Promise<ScannedEvents> {
  const source = await chooseSource(connection, scan)
  const { kind, conditions } = source
  // Without conditions one statement is enough: the last event of the page is also the last examined one, so changed entries do no harm.
  const isOneStatement = conditions.length === 0 && scan.rowsMax < scan.examinedMax
  return kind === 'events' || (kind === 'entries' && isOneStatement)
    ? await walkEvents(connection, source, scan)
    : await walkFound(connection, source, scan)
}

/** Returns the same scan, starting after an id. */
export function scanBeyond(scan: EventScan, id: string): EventScan {
  return { ...scan, range: rangeBeyond(scan.range, id, scan.order) }
}

// Reads in the order of the index, and no more than needed. If too few rows match, a second statement finds the last examined candidate; an
// event stored in between can only move it towards the start of the scan, so no event is skipped. Takes no locks.
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
  const [last] = await read<{ id: EventId }>(
    connection,
    `SELECT e.id FROM (${candidates}) e ${order} LIMIT 1 OFFSET $${candidateValuesCount + 1}::bigint`,
    [...values.slice(0, candidateValuesCount), examinedMax - 1],
  )
  return { events, searchedTo: last?.id }
}

// One statement, since candidates (rows of the queue or of `failed_deliveries`) can be removed between two. Takes no locks.
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
  const rows = await read<{ last: EventId | null } & (EventRow | { id: null })>(
    connection,
    `WITH c AS MATERIALIZED (${candidates})
    SELECT b.last, f.* FROM (SELECT (SELECT c.id FROM c ${order} LIMIT 1 OFFSET $${offset}::bigint) AS last) b
    LEFT JOIN LATERAL (
      SELECT ${selectedColumns} FROM c CROSS JOIN LATERAL (${event}) e
      ${where} ${order} LIMIT $${limit}::bigint) f ON true`,
    [...values, rowsMax + 1, examinedMax - 1],
  )
  const found = rows.flatMap(({ last: _last, ...row }) => (row.id === null ? [] : [summaryOf(row)]))
  const events = found.slice(0, rowsMax)
  if (found.length > rowsMax) return { events, searchedTo: events.at(-1)?.id }
  return { events, searchedTo: rows[0]?.last ?? undefined }
}

/** Prepares the statement under the hash of its text, so that a session plans it once. There are a few dozen texts. */
async function read<Row extends object>(
  connection: Queryable,
  text: string,
  values: readonly unknown[],
): Promise<Row[]> {
  const name = `events_${Bun.hash(text).toString(36)}`
  return (await connection.query<Row>({ name, text, values: [...values] })).rows
}

export function summaryOf({ origin, originBy, ...row }: EventRow): EventSummary {
  return { ...row, receivedAtMs: receivedAtMsOf(row.id), origin: originOf(origin, originBy) }
}

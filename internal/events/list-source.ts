import {
  createEventId,
  type Day,
  dayAfter,
  type EventId,
  expiryDayOf,
  familyPrefixOf,
  type TenantId,
} from '#internal/base/index.ts'
import { type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { stagedProvider } from '#internal/tenants/index.ts'
import { failedEventColumns } from './complete.ts'
import { isFailureStatus, type LastAttemptFilter, lastAttemptConditions } from './last-attempt.ts'
import { isOfTenantText, type OriginKind } from './model.ts'

/**
 * State of an event. `accepted`: a delivery cycle is queued or in progress, or the event waits until a subscription acknowledges it.
 * `verified`: stored but not delivered, while the tenant only verifies events of this provider.
 */
export const eventStates = ['accepted', 'processed', 'delivery_failed', 'verified'] as const
/** State of an event; one of `eventStates`. */
export type EventState = (typeof eventStates)[number]

/**
 * Filter of events; an event must match all members. Without a state, a filter by a status that only failed attempts have finds accepted
 * and failed events only. The last attempt of other events succeeded, unless a subscription acknowledged them.
 */
export interface EventFilter extends LastAttemptFilter {
  readonly tenantId?: TenantId
  /** Provider name, such as `card`. */
  readonly provider?: string
  /** Normalized type, or a family of types: `payment.*` stands for all types that begin with `payment.`. */
  readonly type?: string
  readonly state?: EventState
  readonly origin?: OriginKind
  /** Inclusive start of the time of receipt, in milliseconds since the epoch. */
  readonly fromMs?: number
  /** Exclusive end of the time of receipt, in milliseconds since the epoch. */
  readonly toMs?: number
  /** At most 1 000. */
  readonly ids?: readonly EventId[]
}

/** Time range as event ids, which sort by time of receipt, and the days on which events of this range expire. */
export interface EventRange {
  /** Inclusive. */
  readonly lowId: string
  /** Exclusive. */
  readonly highId: string
  readonly firstDay: Day
  readonly lastDay: Day
}

const dayMs = 86_400_000
/** Maximum retention of an event in days, which an event id stores in one byte. */
const eventDaysMax = 255
/** Maximum time of receipt in milliseconds, which an event id stores in 48 bits. */
const timeMsMax = 2 ** 48 - 1

/** Returns the id range of a filter. Excludes expired events that retention has not removed yet. */
export function rangeOf({ fromMs = 0, toMs = timeMsMax }: EventFilter, nowMs: number): EventRange {
  const [lowMs, highMs] = [clamped(fromMs), clamped(toMs)]
  const tomorrow = dayAfter(nowMs, 0)
  // Tolerates clocks of other processes that are ahead by less than a day.
  const latestMs = nowMs + dayMs
  const firstDay = dayAfter(Math.min(lowMs, latestMs), 1)
  return {
    lowId: lowestIdOf(lowMs),
    highId: lowestIdOf(highMs),
    firstDay: firstDay > tomorrow ? firstDay : tomorrow,
    lastDay: dayAfter(Math.min(highMs, latestMs), eventDaysMax),
  }
}

/** Returns the part of a range after this id, in the given order. */
export function rangeBeyond(range: EventRange, id: string, order: 'newest' | 'oldest'): EventRange {
  if (order === 'newest') return id < range.highId ? { ...range, highId: id } : range
  // This text sorts directly after the id, so the range excludes the id.
  const next = `${id}!`
  return next > range.lowId ? { ...range, lowId: next } : range
}

/** Returns the lowest id of events received at this time. */
export function lowestIdOf(timeMs: number): EventId {
  return createEventId(timeMs, 0, (bytes) => bytes.fill(0))
}

function clamped(timeMs: number): number {
  return Math.min(timeMsMax, Math.max(0, Math.floor(timeMs)))
}

/** A pool, or one connection in a transaction. */
export type Queryable = Pick<Pool | PoolClient, 'query'>

/** `examinedMax`: maximum events to examine if no index covers the filter. */
export interface SourceRequest {
  readonly filter: EventFilter
  readonly range: EventRange
  readonly order: 'newest' | 'oldest'
  readonly examinedMax: number
}

/** SQL for a limited, ordered number of candidates (rows that may belong to matching events), and the conditions on their events. */
export interface EventSource {
  readonly candidates: string
  /** Terms of ORDER BY, with the candidates' column names. */
  readonly sorted: readonly string[]
  /**
   * `events`: rows of `events`, which can be added during a scan. `entries`: rows of `failed_deliveries`, which can be added and removed
   * during a scan. `ids`: only `id` and `expires_on` of events, from rows that can also be added and removed.
   */
  readonly kind: 'events' | 'entries' | 'ids'
  /** SQL conditions on the event `e` and the candidate `c`. */
  readonly conditions: readonly string[]
  /** Parameters of the candidates, followed by those of the conditions. */
  readonly values: readonly unknown[]
  readonly candidateValuesCount: number
}

export const eventColumns = `id, expires_on, tenant_id, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
  payload_expires_on, state, cycle, completed_at, origin, origin_by`

/**
 * Maximum length of a tenant queue, including waiting pulls, that is read as a whole. If it is longer, the tenant's events are scanned
 * instead. The scan finds matches quickly, since most of the latest events are then probably queued.
 */
const shortQueueMax = 2_000
/** Every accepted event has a row in one of these tables. */
const acceptedTables = ['deliveries_due', 'pulls_due'] as const
const ofTenant = {
  deliveries_due: isOfTenantText,
  pulls_due: (tenantId: string) => `tenant_id = ${tenantId}`,
}
const idsMax = 1_000

/** Returns an SQL condition for each filter, undefined if it has no value. `add` adds a parameter and returns its placeholder. */
function columnConditions(
  { tenantId, provider, type, state, origin }: Rest,
  add: (value: unknown) => string,
): Readonly<Record<Exclude<keyof Rest, keyof LastAttemptFilter>, string | undefined>> {
  const equal = (column: string, value: unknown) =>
    value === undefined ? undefined : `e.${column} = ${add(value)}`
  const prefix = type === undefined ? undefined : familyPrefixOf(type)
  return {
    tenantId: equal('tenant_id', tenantId),
    provider: equal('provider', provider),
    state: equal('state', state),
    origin: equal('origin', origin),
    type: prefix === undefined ? equal('type', type) : `e.type ^@ ${add(prefix)}`,
  }
}

class Parameters {
  readonly values: unknown[] = []

  add(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }

  source(
    kind: EventSource['kind'],
    { candidates, sorted }: Pick<EventSource, 'candidates' | 'sorted'>,
    rest: Rest,
    more: readonly string[] = [],
  ): EventSource {
    const candidateValuesCount = this.values.length
    const add = (value: unknown) => this.add(value)
    const ofColumns = Object.values(columnConditions(rest, add)).filter((each) => each !== undefined)
    const conditions = [...ofColumns, ...more, ...lastAttemptConditions(rest, add)]
    return { kind, candidates, sorted, conditions, values: this.values, candidateValuesCount }
  }
}

/** Members of a filter that the candidates of a source do not cover. */
type Rest = {
  readonly [Name in keyof Omit<EventFilter, 'fromMs' | 'toMs' | 'ids'>]?: EventFilter[Name] | undefined
}

/** Chooses the index for a filter. Reads the length of the tenant's queue if the choice depends on it. */
export async function chooseSource(connection: Queryable, request: SourceRequest): Promise<EventSource> {
  const { ids, state, tenantId, status } = request.filter
  if (ids) return givenSource(request, ids)
  if (state === 'delivery_failed') return failedSource(request)
  const isUnfinished = state === undefined && status !== undefined && isFailureStatus(status)
  if (state !== 'accepted' && !isUnfinished) return indexSource(request)
  if (tenantId === undefined) return isUnfinished ? unfinishedSource(request) : queueSource(request)
  if (!(await isQueueShort(connection, tenantId)))
    return indexSource(request, isUnfinished ? [`e.state IN ('accepted', 'delivery_failed')`] : [])
  return isUnfinished ? unfinishedSource(request) : tenantQueueSource(request, tenantId)
}

/** Scans one index of events: by tenant, type, provider, tenant and type, tenant and provider, or by id alone. */
function indexSource(request: SourceRequest, more: readonly string[] = []): EventSource {
  const { tenantId, provider: named, type, ...rest } = restOf(request.filter)
  const { state } = request.filter
  const provider = named ?? (state === 'verified' ? stagedProvider : undefined)
  const wholeType = type !== undefined && familyPrefixOf(type) === undefined ? type : undefined
  const parameters = new Parameters()
  const keys: [name: string, value: string][] = []
  if (tenantId !== undefined) keys.push(['tenant_id', tenantId])
  if (wholeType !== undefined) keys.push(['type', wholeType])
  else if (provider !== undefined) keys.push(['provider', provider])
  const walk = walkOf(request, { table: 'events', keys, columns: eventColumns }, parameters)
  const own = wholeType === undefined ? { type } : { provider }
  return parameters.source('events', walk, { ...own, ...rest, state }, more)
}

// An entry of a version that does not copy `origin` has null there. Then, and for `origin_by` of the few events without a provider's call,
// the event is read by its key.
const ofEvent = (column: string) =>
  `(SELECT o.${column} FROM events o WHERE o.id = failed_deliveries.id AND o.expires_on = failed_deliveries.expires_on)`
const failedColumns = `${failedEventColumns}, 'delivery_failed' AS state,
  CASE WHEN origin = 'provider' THEN NULL ELSE ${ofEvent('origin_by')} END AS origin_by`

function failedSource(request: SourceRequest): EventSource {
  const { tenantId, ...rest } = restOf(request.filter)
  const parameters = new Parameters()
  const walk = walkOf(
    request,
    { table: 'failed_deliveries', keys: tenantKeys(tenantId), columns: failedColumns },
    parameters,
  )
  return parameters.source('entries', walk, rest)
}

function tenantKeys(tenantId: TenantId | undefined): [string, string][] {
  return tenantId === undefined ? [] : [['tenant_id', tenantId]]
}

// Reads failed events from `failed_deliveries`, and accepted ones with a delivery from the queue of all tenants, or of one, which must be
// short. The state distinguishes an entry of `failed_deliveries` that its next delivery cycle has not removed yet.
function unfinishedSource(request: SourceRequest): EventSource {
  const { filter, range, order, examinedMax } = request
  const { tenantId } = filter
  const parameters = new Parameters()
  const failed = walkOf(
    request,
    {
      table: 'failed_deliveries',
      keys: tenantKeys(tenantId),
      columns: `id, expires_on, 'delivery_failed' AS state`,
    },
    parameters,
  )
  const within = `event_id >= ${parameters.add(range.lowId)} AND event_id < ${parameters.add(range.highId)}`
  const direction = directionOf(order)
  const limit = `LIMIT ${parameters.add(examinedMax)}::bigint`
  const dueColumns = `event_id AS id, expires_on, 'accepted' AS state`
  const due =
    tenantId === undefined
      ? `SELECT ${dueColumns} FROM deliveries_due WHERE ${within} ORDER BY event_id ${direction} ${limit}`
      : `SELECT * FROM (SELECT ${dueColumns} FROM deliveries_due WHERE ${isOfTenantText(`${parameters.add(tenantId)}::text`)} LIMIT ${2 * shortQueueMax}) q
         WHERE ${within.replaceAll('event_id', 'q.id')}`
  const candidates = `SELECT id, expires_on, state FROM ((${failed.candidates}) UNION ALL (${due})) w ORDER BY id ${direction} ${limit}`
  return parameters.source('ids', { candidates, sorted: [`id ${direction}`] }, restOf(filter), [
    'e.state = c.state',
  ])
}

// Reads the delivery queue and the waiting pulls by their key, the event id: every accepted event has a row in one of them.
function queueSource({ filter, range, order, examinedMax }: SourceRequest): EventSource {
  const parameters = new Parameters()
  const within = `event_id >= ${parameters.add(range.lowId)} AND event_id < ${parameters.add(range.highId)}`
  const direction = directionOf(order)
  const limit = `LIMIT ${parameters.add(examinedMax)}::bigint`
  const parts = acceptedTables.map(
    (table) =>
      `(SELECT event_id AS id, expires_on FROM ${table} WHERE ${within} ORDER BY event_id ${direction} ${limit})`,
  )
  const candidates = `SELECT id, expires_on FROM (${parts.join(' UNION ALL ')}) w ORDER BY id ${direction} ${limit}`
  return parameters.source('ids', { candidates, sorted: [`id ${direction}`] }, restOf(filter))
}

// Sorts the tenant queue and the waiting pulls by event id, since the queue has another order. The candidates end at `examinedMax` like
// those of any source: a match after the last examined candidate belongs to the next page.
function tenantQueueSource(
  { filter, range, order, examinedMax }: SourceRequest,
  tenantId: string,
): EventSource {
  const parameters = new Parameters()
  const tenant = parameters.add(tenantId)
  const within = `id >= ${parameters.add(range.lowId)} AND id < ${parameters.add(range.highId)}`
  const direction = directionOf(order)
  const parts = acceptedTables.map(
    (table) =>
      `(SELECT event_id AS id, expires_on FROM ${table} WHERE ${ofTenant[table](`${tenant}::text`)} LIMIT ${2 * shortQueueMax})`,
  )
  const candidates = `WITH q AS MATERIALIZED (${parts.join(' UNION ALL ')})
    SELECT id, expires_on FROM q WHERE ${within} ORDER BY id ${direction} LIMIT ${parameters.add(examinedMax)}::bigint`
  return parameters.source('ids', { candidates, sorted: [`id ${direction}`] }, restOf(filter))
}

function givenSource({ filter, range, order }: SourceRequest, ids: readonly EventId[]): EventSource {
  if (ids.length > idsMax)
    throw new RangeError(`an event filter accepts at most ${idsMax} ids, got ${ids.length}`)
  const parameters = new Parameters()
  const unique = [...new Set(ids)]
  const given = `${parameters.add(textArrayParam(unique))}::text[], ${parameters.add(textArrayParam(unique.map(expiryDayOf)))}::text[]`
  const within = `id >= ${parameters.add(range.lowId)} AND id < ${parameters.add(range.highId)}`
  const candidates = `SELECT id COLLATE "C" AS id, day::date AS expires_on FROM unnest(${given}) AS g(id, day)
    WHERE ${within} AND day >= ${parameters.add(range.firstDay)}::text`
  const rest = { ...restOf(filter), state: filter.state }
  return parameters.source('ids', { candidates, sorted: [`id ${directionOf(order)}`] }, rest)
}

// Compares the index columns together with the id, also in ORDER BY, so that Postgres does not choose a shorter index and scan all of it.
// Days are parameters, since planning a statement for ninety partitions takes longer than reading the rows: Postgres keeps the plan and
// prunes partitions at execution.
function walkOf(
  { range, order, examinedMax }: SourceRequest,
  {
    table,
    keys,
    columns,
  }: {
    readonly table: 'events' | 'failed_deliveries'
    /** Names and values of the columns that precede the id in the index. */
    readonly keys: readonly (readonly [name: string, value: string])[]
    readonly columns: string
  },
  parameters: Parameters,
): Pick<EventSource, 'candidates' | 'sorted'> {
  const names = [...keys.map(([name]) => name), 'id']
  const places = keys.map(([, value]) => parameters.add(value))
  const low = [...places, parameters.add(range.lowId)].join(', ')
  const high = [...places, parameters.add(range.highId)].join(', ')
  const key = `(${names.join(', ')})`
  const sorted = names.map((name) => `${name} ${directionOf(order)}`)
  const days = `expires_on BETWEEN ${parameters.add(range.firstDay)}::date AND ${parameters.add(range.lastDay)}::date`
  const limit = `LIMIT ${parameters.add(examinedMax)}::bigint`
  const candidates = `SELECT ${columns} FROM ${table} WHERE ${days} AND ${key} >= (${low}) AND ${key} < (${high}) ORDER BY ${sorted.join(', ')} ${limit}`
  return { candidates, sorted }
}

async function isQueueShort(connection: Queryable, tenantId: string): Promise<boolean> {
  const { rows } = await connection.query<[number]>({
    name: 'is_queue_short',
    text: `SELECT count(*) FROM (${acceptedTables
      .map(
        (table) => `(SELECT 1 FROM ${table} WHERE ${ofTenant[table]('$1::text')} LIMIT ${shortQueueMax + 1})`,
      )
      .join(' UNION ALL ')}) q`,
    rowMode: 'array',
    values: [tenantId],
  })
  return (rows[0]?.[0] ?? 0) <= shortQueueMax
}

function restOf({ fromMs: _fromMs, toMs: _toMs, ids: _ids, state: _state, ...rest }: EventFilter): Rest {
  return rest
}

function directionOf(order: SourceRequest['order']): 'DESC' | 'ASC' {
  return order === 'newest' ? 'DESC' : 'ASC'
}

import {
  createEventId,
  type Day,
  dayAfter,
  type EventId,
  expiryDayOf,
  type TenantId,
} from '#internal/base/index.ts'
import { type Pool, type PoolClient, textArrayParam } from '#internal/storage/index.ts'
import { failedEventColumns } from './complete.ts'

/**
 * State of an event. `accepted`: a delivery cycle is in progress or waits; `verified`: stored and not to be delivered, as
 * long as its provider is only tried out.
 */
export const eventStates = ['accepted', 'processed', 'delivery_failed', 'verified'] as const
/** One of the states of an event. */
export type EventState = (typeof eventStates)[number]

/** Filter of events; all members have to match. */
export interface EventFilter {
  readonly tenantId?: TenantId
  /** Its neutral name. */
  readonly provider?: string
  /** A normalized type, whole. */
  readonly type?: string
  readonly state?: EventState
  /** Milliseconds since the epoch at which an event was received: this one and later. */
  readonly fromMs?: number
  /** Earlier than this one. */
  readonly toMs?: number
  /** At most 1 000. */
  readonly ids?: readonly EventId[]
}

/** A stretch of time as ids, which sort by it, and the days on which what was received in it may go. */
export interface EventRange {
  /** This one and later. */
  readonly lowId: string
  /** Earlier than this one. */
  readonly highId: string
  readonly firstDay: Day
  readonly lastDay: Day
}

const dayMs = 86_400_000
/** An id tells its days in one byte. */
const eventDaysMax = 255
/** 48 bits of milliseconds, as an id holds them. */
const timeMsMax = 2 ** 48 - 1

/**
 * The stretch of a filter. Events whose day has come are not in it, whether or not retention has taken them away yet. Pure.
 * @param nowMs the time, in milliseconds since the epoch
 */
export function rangeOf({ fromMs = 0, toMs = timeMsMax }: EventFilter, nowMs: number): EventRange {
  const [lowMs, highMs] = [clamped(fromMs), clamped(toMs)]
  const tomorrow = dayAfter(nowMs, 0)
  // Clocks differ, but no event is of the day after tomorrow.
  const latestMs = nowMs + dayMs
  const firstDay = dayAfter(Math.min(lowMs, latestMs), 1)
  return {
    lowId: lowestIdOf(lowMs),
    highId: lowestIdOf(highMs),
    firstDay: firstDay > tomorrow ? firstDay : tomorrow,
    lastDay: dayAfter(Math.min(highMs, latestMs), eventDaysMax),
  }
}

/** The range without what lies up to this id, or from it on, on the way that the events are walked. Pure. */
export function rangeBeyond(range: EventRange, id: string, order: 'newest' | 'oldest'): EventRange {
  if (order === 'newest') return id < range.highId ? { ...range, highId: id } : range
  // Sorts behind the id and before every other one.
  const next = `${id}!`
  return next > range.lowId ? { ...range, lowId: next } : range
}

/** The lowest id that an event may have which is received at a time. Pure. */
export function lowestIdOf(timeMs: number): EventId {
  return createEventId(timeMs, 0, (bytes) => bytes.fill(0))
}

function clamped(timeMs: number): number {
  return Math.min(timeMsMax, Math.max(0, Math.floor(timeMs)))
}

/** A pool, or one connection in a transaction. */
export type Queryable = Pick<Pool | PoolClient, 'query'>

/** Events to walk, and the most to examine where no index covers the filter. */
export interface SourceRequest {
  readonly filter: EventFilter
  readonly range: EventRange
  readonly order: 'newest' | 'oldest'
  readonly examinedMax: number
}

/** SQL that gives events, or what they are found by, in order and bounded; and what they are still to be asked. */
export interface EventSource {
  /** SQL of the candidates. */
  readonly candidates: string
  /** Terms of ORDER BY, with the candidates' names. */
  readonly sorted: readonly string[]
  /**
   * Kind of the candidates: rows of `events`, to which others are only added; whole ones that come and go, as `entries` do; or
   * the `id` and `expires_on` of events, which come and go too.
   */
  readonly kind: 'events' | 'entries' | 'ids'
  /** Conditions on the event `e` and the candidate `c`. */
  readonly conditions: readonly string[]
  /** The parameters of the candidates, then those of the conditions. */
  readonly values: readonly unknown[]
  readonly candidateValuesCount: number
}

/** Columns read of an event, without its texts. */
export const eventColumns = `id, tenant_id, provider, source_event_id, raw_type, type, occurred_at, payload_bytes,
  payload_expires_on, state, cycle, completed_at`

/** A tenant's queue is read whole up to here; what is longer is probably what its latest events wait in. */
const shortQueueMax = 2_000
/** Only its events are ever stored without being delivered. */
const triedOutProvider = 'wallet'
const idsMax = 1_000

/** Collects the parameters of one statement. */
class Parameters {
  readonly values: unknown[] = []

  /** Its place in the statement. */
  add(value: unknown): string {
    this.values.push(value)
    return `$${this.values.length}`
  }
}

/** Chooses how the events of a filter are walked; asks how long a tenant's queue is where that decides. */
export async function chooseSource(connection: Queryable, request: SourceRequest): Promise<EventSource> {
  const { ids, state, tenantId } = request.filter
  if (ids) return givenSource(request, ids)
  if (state === 'delivery_failed') return failedSource(request)
  if (state !== 'accepted') return indexSource(request)
  if (tenantId === undefined) return queueSource(request)
  return (await isQueueShort(connection, tenantId))
    ? tenantQueueSource(request, tenantId)
    : indexSource(request)
}

/** One index of events: by tenant, type, provider, tenant and type, tenant and provider, or by id alone. */
function indexSource(request: SourceRequest): EventSource {
  const { tenantId, type, state } = request.filter
  const provider = request.filter.provider ?? (state === 'verified' ? triedOutProvider : undefined)
  const parameters = new Parameters()
  const keys: [name: string, value: string][] = []
  if (tenantId !== undefined) keys.push(['tenant_id', tenantId])
  if (type !== undefined) keys.push(['type', type])
  else if (provider !== undefined) keys.push(['provider', provider])
  const walk = walkOf(request, { table: 'events', keys, columns: eventColumns }, parameters)
  const rest = { ...(type !== undefined && provider !== undefined && { provider }), ...(state && { state }) }
  return { ...walk, kind: 'events', conditions: equalities(rest, parameters), values: parameters.values }
}

/** Reads failed events from their own table. */
function failedSource(request: SourceRequest): EventSource {
  const { tenantId, type, provider } = request.filter
  const parameters = new Parameters()
  const keys: [string, string][] = tenantId === undefined ? [] : [['tenant_id', tenantId]]
  const walk = walkOf(
    request,
    { table: 'failed_events', keys, columns: `${failedEventColumns}, 'delivery_failed' AS state` },
    parameters,
  )
  const rest = { ...(type !== undefined && { type }), ...(provider && { provider }) }
  return { ...walk, kind: 'entries', conditions: equalities(rest, parameters), values: parameters.values }
}

// Whatever is accepted has its row in the queue, whose key is the event's id.
function queueSource({ filter, range, order, examinedMax }: SourceRequest): EventSource {
  const parameters = new Parameters()
  const within = `event_id >= ${parameters.add(range.lowId)} AND event_id < ${parameters.add(range.highId)}`
  const direction = directionOf(order)
  return {
    candidates: `SELECT event_id AS id, expires_on FROM deliveries_due WHERE ${within}
      ORDER BY event_id ${direction} LIMIT ${parameters.add(examinedMax)}::bigint`,
    sorted: [`id ${direction}`],
    candidateValuesCount: parameters.values.length,
    kind: 'ids',
    conditions: equalities(restOf(filter), parameters),
    values: parameters.values,
  }
}

// Read by its tenant queue, whose order is another one, and sorted here.
function tenantQueueSource({ filter, range, order }: SourceRequest, tenantId: string): EventSource {
  const parameters = new Parameters()
  const tenant = parameters.add(tenantId)
  const within = `id >= ${parameters.add(range.lowId)} AND id < ${parameters.add(range.highId)}`
  return {
    candidates: `WITH q AS MATERIALIZED (
        SELECT event_id AS id, expires_on FROM deliveries_due WHERE tenant_id = ${tenant} LIMIT ${2 * shortQueueMax})
      SELECT id, expires_on FROM q WHERE ${within}`,
    sorted: [`id ${directionOf(order)}`],
    candidateValuesCount: parameters.values.length,
    kind: 'ids',
    conditions: equalities(restOf(filter), parameters),
    values: parameters.values,
  }
}

function givenSource({ filter, range, order }: SourceRequest, ids: readonly EventId[]): EventSource {
  if (ids.length > idsMax) throw new RangeError(`at most ${idsMax} ids, got ${ids.length}`)
  const parameters = new Parameters()
  const unique = [...new Set(ids)]
  const given = `${parameters.add(textArrayParam(unique))}::text[], ${parameters.add(textArrayParam(unique.map(expiryDayOf)))}::text[]`
  const within = `id >= ${parameters.add(range.lowId)} AND id < ${parameters.add(range.highId)}`
  return {
    candidates: `SELECT id COLLATE "C" AS id, day::date AS expires_on FROM unnest(${given}) AS g(id, day)
      WHERE ${within} AND day >= ${parameters.add(range.firstDay)}::text`,
    sorted: [`id ${directionOf(order)}`],
    candidateValuesCount: parameters.values.length,
    kind: 'ids',
    conditions: equalities({ ...restOf(filter), ...(filter.state && { state: filter.state }) }, parameters),
    values: parameters.values,
  }
}

interface Walk {
  readonly table: 'events' | 'failed_events'
  /** Columns with the values that they are to have; with the id after them they are an index. */
  readonly keys: readonly (readonly [name: string, value: string])[]
  readonly columns: string
}

// The keys stand in one comparison with the id, and in the order, so that no other index seems to do: a planner that takes the
// shorter one reads through all that the keys leave out. Days are parameters, since planning ninety partitions takes longer than reading them: the
// plan is kept, and leaves out what it need not read when it starts.
function walkOf(
  { range, order, examinedMax }: SourceRequest,
  { table, keys, columns }: Walk,
  parameters: Parameters,
): Pick<EventSource, 'candidates' | 'sorted' | 'candidateValuesCount'> {
  const names = [...keys.map(([name]) => name), 'id']
  const places = keys.map(([, value]) => parameters.add(value))
  const low = [...places, parameters.add(range.lowId)].join(', ')
  const high = [...places, parameters.add(range.highId)].join(', ')
  const key = `(${names.join(', ')})`
  const sorted = names.map((name) => `${name} ${directionOf(order)}`)
  const days = `expires_on BETWEEN ${parameters.add(range.firstDay)}::date AND ${parameters.add(range.lastDay)}::date`
  const limit = `LIMIT ${parameters.add(examinedMax)}::bigint`
  return {
    candidates: `SELECT ${columns} FROM ${table} WHERE ${days} AND ${key} >= (${low}) AND ${key} < (${high}) ORDER BY ${sorted.join(', ')} ${limit}`,
    sorted,
    candidateValuesCount: parameters.values.length,
  }
}

async function isQueueShort(connection: Queryable, tenantId: string): Promise<boolean> {
  const { rows } = await connection.query<[number]>({
    name: 'is_queue_short',
    text: `SELECT count(*) FROM (SELECT FROM deliveries_due WHERE tenant_id = $1 LIMIT ${shortQueueMax + 1}) q`,
    rowMode: 'array',
    values: [tenantId],
  })
  return (rows[0]?.[0] ?? 0) <= shortQueueMax
}

/** Conditions that neither the queue nor an id covers. */
function restOf({ tenantId, provider, type }: EventFilter): Readonly<Record<string, string>> {
  return {
    ...(tenantId !== undefined && { tenant_id: tenantId }),
    ...(provider !== undefined && { provider }),
    ...(type !== undefined && { type }),
  }
}

function equalities(columns: Readonly<Record<string, string>>, parameters: Parameters): string[] {
  return Object.entries(columns).map(([name, value]) => `e.${name} = ${parameters.add(value)}`)
}

function directionOf(order: SourceRequest['order']): 'DESC' | 'ASC' {
  return order === 'newest' ? 'DESC' : 'ASC'
}

import type { TenantId } from '#internal/base/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import {
  countColumns,
  hourMs,
  latencyBoundsMs,
  latencyFrom,
  minuteMs,
  type QueueSight,
  type StatName,
  statNames,
} from './stats-tally.ts'

/** Scope of a query: the whole installation, or at most 1 000 tenants. */
export type StatsTenants = 'all' | readonly TenantId[]

export interface StatsSums extends Readonly<Record<StatName, number>> {
  readonly refusedBy: Readonly<Record<string, number>>
  /** Time from an event's receipt to its delivery; undefined without deliveries. */
  readonly latencyMs: Readonly<Record<'p50' | 'p95' | 'p99', number | undefined>>
}

/** Point of a chart. */
export interface StatsPoint extends StatsSums {
  readonly atMs: number
  /** Maximum state of the queue in the step. Undefined if the query selects single tenants, or if no process reported the queue. */
  readonly queue: QueueSight | undefined
}

/** Stats over time. */
export interface Stats {
  readonly stepMs: number
  /** One point per step, oldest first, including steps without counts. */
  readonly points: readonly StatsPoint[]
  readonly total: StatsSums
}

const pointsMax = 200
const tenantsMax = 1_000
const minuteRowsMax = 20_000
const steps = [1, 2, 5, 10, 15, 60, 120, 240, 360, 720].map((minutes) => minutes * minuteMs)

/** Returns the shortest step with at most 200 points (4 h for 30 days); at least 1 h if over 20 000 rows would be read otherwise. */
export function statsStepMs(spanMs: number, tenantsCount = 1): number {
  const isWide = (tenantsCount * spanMs) / minuteMs > minuteRowsMax
  const shortestMs = Math.max(spanMs / (pointsMax - 1), isWide ? hourMs : 0)
  return steps.find((step) => step >= shortestMs) ?? Math.ceil(shortestMs / hourMs) * hourMs
}

/**
 * Reads stats from rollups. The span is widened to whole steps. Stats per minute are kept for two days and lag by some seconds; stats per
 * hour are kept for 35 days and lag by a minute; earlier points are 0.
 * @throws RangeError for more than 200 points or 1 000 tenants, and for a step that is not a whole number of minutes or hours; errors of
 * Postgres
 */
export async function readStats(
  pool: Pool,
  request: {
    readonly tenants: StatsTenants
    readonly fromMs: number
    readonly toMs: number
    /** Whole minutes below an hour, otherwise whole hours. See `statsStepMs`. */
    readonly stepMs: number
  },
): Promise<Stats> {
  const { stepMs, tenants } = request
  const fromMs = Math.floor(request.fromMs / stepMs) * stepMs
  const count = Math.ceil((request.toMs - fromMs) / stepMs)
  checkRequest(tenants, stepMs, count)
  const ids = tenants === 'all' ? [''] : tenants
  const [from, to] = [fromMs, fromMs + count * stepMs].map((ms) => new Date(ms).toISOString())
  const values = [textArrayParam(ids), from, to, `${stepMs} ms`]
  const [rows, sights] = await Promise.all([
    readSums(pool, stepMs, values),
    tenants === 'all' ? readQueue(pool, values.slice(1)) : undefined,
  ])
  const byStep = new Map(rows.map((row) => [row.atMs, row]))
  const points = Array.from({ length: count }, (_none, nth): StatsPoint => {
    const atMs = fromMs + nth * stepMs
    return { atMs, ...sumsOf(byStep.get(atMs) ?? { counts: [], causes: [] }), queue: sights?.get(atMs) }
  })
  const counts = countColumns.map((_name, at) => rows.reduce((sum, row) => sum + (row.counts[at] ?? 0), 0))
  return { stepMs, points, total: sumsOf({ counts, causes: rows.flatMap(({ causes }) => causes) }) }
}

function checkRequest(tenants: StatsTenants, stepMs: number, count: number): void {
  if (!(count >= 0 && count <= pointsMax)) throw new RangeError(`stats are limited to ${pointsMax} points`)
  if (tenants !== 'all' && tenants.length > tenantsMax)
    throw new RangeError(`stats are limited to ${tenantsMax} tenants`)
  if (stepMs % (stepMs < hourMs ? minuteMs : hourMs) !== 0)
    throw new RangeError('the step of stats must be a whole number of minutes or hours')
}

/** @param counts in the order of `countColumns` */
function sumsOf({ counts, causes }: Omit<Awaited<ReturnType<typeof readSums>>[number], 'atMs'>): StatsSums {
  const refusedBy: Record<string, number> = {}
  for (const [cause, calls] of causes.flatMap((each) => Object.entries(each)))
    refusedBy[cause] = (refusedBy[cause] ?? 0) + calls
  const named = Object.fromEntries(statNames.map((name, at) => [name, counts[at] ?? 0]))
  const buckets = counts.slice(latencyFrom)
  return {
    ...(named as Record<StatName, number>),
    refusedBy,
    latencyMs: {
      p50: percentileMs(buckets, 0.5),
      p95: percentileMs(buckets, 0.95),
      p99: percentileMs(buckets, 0.99),
    },
  }
}

const tableOf = (stepMs: number) => (stepMs < hourMs ? 'stats_minutely' : 'stats_hourly')
const epochMs = (of: string) => `(extract(epoch FROM ${of}) * 1000)::float8`
const binOf = (step: string) => `date_bin(${step}::interval, at, 'epoch'::timestamptz)`

const sums = countColumns.map((name) => `sum(${name})::float8`).join(', ')

async function readSums(pool: Pool, stepMs: number, values: readonly unknown[]) {
  const table = tableOf(stepMs)
  const { rows } = await pool.query<[number, Readonly<Record<string, number>>[] | null, ...number[]]>({
    name: `stats-read-${table}`,
    text: `SELECT ${epochMs(binOf('$4'))}, jsonb_agg(refused_by) FILTER (WHERE refused_by IS NOT NULL), ${sums}
      FROM ${table} WHERE tenant_id = ANY($1::text[]) AND at >= $2 AND at < $3 GROUP BY 1`,
    rowMode: 'array',
    values: [...values],
  })
  return rows.map(([atMs, causes, ...counts]) => ({ atMs, counts, causes: causes ?? [] }))
}

async function readQueue(pool: Pool, values: readonly unknown[]): Promise<Map<number, QueueSight>> {
  const { rows } = await pool.query<[number, number, number]>({
    name: 'stats-read-queue',
    text: `SELECT ${epochMs(binOf('$3'))}, max(due_count), max(oldest_age_ms)::float8 FROM stats_queue
      WHERE at >= $1 AND at < $2 GROUP BY 1`,
    rowMode: 'array',
    values: [...values],
  })
  return new Map(rows.map(([atMs, dueCount, oldestAgeMs]) => [atMs, { dueCount, oldestAgeMs }]))
}

/**
 * Interpolates linearly within a bucket. Returns the highest limit for a percentile above it, and undefined if all buckets are empty.
 * @param share the percentile as a number from 0 to 1
 */
export function percentileMs(buckets: readonly number[], share: number): number | undefined {
  const total = buckets.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  const wanted = share * total
  let below = 0
  for (const [at, count] of buckets.entries()) {
    const from = latencyBoundsMs[at - 1] ?? 0
    const to = latencyBoundsMs[at] ?? from
    if (count > 0 && below + count >= wanted)
      return Math.round(from + ((to - from) * (wanted - below)) / count)
    below += count
  }
  return latencyBoundsMs.at(-1)
}

/** Counts of one tenant. */
export interface TenantStats extends Readonly<Record<StatName, number>> {
  readonly tenantId: TenantId
}

const spanMsMax = 24 * hourMs
/** Maximum span that is read from stats per minute. Longer spans are read from stats per hour. */
const minutesMsMax = 2 * hourMs
const sumOf = (name: StatName) => `sum(${countColumns[statNames.indexOf(name)]})`

/**
 * Ranks tenants with counts by one of them, highest first. Spans over two hours are widened to whole hours. Reads at most two hours of
 * stats per minute or a day of stats per hour per tenant, using an index.
 * @throws errors of Postgres
 */
export async function rankTenants(
  pool: Pool,
  request: {
    readonly tenants: StatsTenants
    /** Start, moved to 24 h before `toMs` if it is earlier. */
    readonly fromMs: number
    readonly toMs: number
    readonly orderBy: StatName
    /** Value from 1 to 1 000. */
    readonly limit: number
  },
): Promise<readonly TenantStats[]> {
  const { tenants, toMs, orderBy, limit } = request
  const givenFromMs = Math.max(request.fromMs, toMs - spanMsMax)
  const isLong = toMs - givenFromMs > minutesMsMax
  const fromMs = isLong ? Math.floor(givenFromMs / hourMs) * hourMs : givenFromMs
  const table = isLong ? 'stats_hourly' : 'stats_minutely'
  const { rows } = await pool.query<[TenantId, ...number[]]>({
    text: `SELECT tenant_id, ${statNames.map((name) => `${sumOf(name)}::float8`).join(', ')} FROM ${table}
      WHERE at >= $1 AND at < $2 AND ${tenants === 'all' ? `tenant_id <> ''` : 'tenant_id = ANY($4::text[])'}
      GROUP BY tenant_id ORDER BY ${sumOf(orderBy)} DESC, tenant_id LIMIT $3`,
    rowMode: 'array',
    values: [
      new Date(fromMs),
      new Date(toMs),
      Math.min(Math.max(1, limit), 1_000),
      ...(tenants === 'all' ? [] : [textArrayParam(tenants)]),
    ],
  })
  return rows.map(([tenantId, ...counts]) => {
    const named = Object.fromEntries(statNames.map((name, at) => [name, counts[at] ?? 0]))
    return { tenantId, ...(named as Record<StatName, number>) }
  })
}

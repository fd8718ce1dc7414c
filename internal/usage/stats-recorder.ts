import { type Clock, randomToken, type TenantId } from '#internal/base/index.ts'
import {
  BufferedWriter,
  type Pool,
  type RemovedRows,
  removeOldest,
  writeRowsOrThrow,
} from '#internal/storage/index.ts'
import {
  addCell,
  countColumns,
  emptyCell,
  hourMs,
  minuteMs,
  type QueueSight,
  type StatsCell,
  type StatsTally,
} from './stats-tally.ts'

const cellsMax = 2_000
const batchesMax = 5
/** Interval of writing stats per hour; writing them at each flush would update the same rows again and again. */
const hoursWaitMs = 60_000
/** Maximum number of batches of the final flush: more than a full tally contains. */
const lastBatchesMax = 20

/**
 * Writes the counts of a tally to Postgres in the background, each exactly once: a failed batch is repeated unchanged before any other
 * batch. A process that dies loses its unwritten counts: some seconds of the stats per minute, and up to a minute of the stats per hour.
 */
export class StatsRecorder {
  readonly #options
  readonly #writer: BufferedWriter<StatsBatch>
  readonly #name = randomToken()
  #turn = 0
  #hours = new Map<string, StatsCell>()
  #hoursDueMs: number
  #isEnding = false

  constructor(options: {
    readonly pool: Pool
    readonly tally: StatsTally
    readonly clock: Clock
    /** Called when Postgres rejects a batch, which is then dropped. `cells`: one per tenant and period. Must not throw. */
    readonly onRefused: (cells: number, cause: unknown) => void
  }) {
    this.#options = options
    this.#hoursDueMs = options.clock.now() + hoursWaitMs
    this.#writer = new BufferedWriter({ take: () => this.#take(), write: (batch) => this.#write(batch) })
  }

  /** Writes at most 10 000 cells, one per tenant and minute. Flushes must not overlap. @throws errors of an unavailable Postgres */
  flush(): Promise<void> {
    return this.#writer.flush(batchesMax)
  }

  /** Writes all counts, including stats per hour that are not due yet. @throws as `flush` does */
  flushAll(): Promise<void> {
    this.#isEnding = true
    return this.#writer.flush(lastBatchesMax)
  }

  async #write(batch: StatsBatch): Promise<void> {
    const { pool, onRefused } = this.#options
    // A single row, so that the batch is not split if Postgres rejects it: its sequence number is accepted only once.
    const rejected = await writeRowsOrThrow([batch], { write: ([all]) => writeStats(pool, all ?? batch) })
    for (const { error } of rejected) onRefused(batch.minutes.length + batch.hours.length, error)
  }

  #take(): StatsBatch | undefined {
    const { tally } = this.#options
    const cells = tally.take(cellsMax)
    const queue = tally.takeQueue()
    const hours = this.#takeHours(cells)
    if (cells.length === 0 && hours.length === 0 && queue.size === 0) return undefined
    this.#turn += 1
    const minutes = [...cells, ...wholes(cells, minuteMs)]
    return { writer: this.#name, turn: this.#turn, minutes, hours, queue }
  }

  #takeHours(cells: readonly StatsCell[]): readonly StatsCell[] {
    for (const cell of cells) addTo(this.#hours, cell.tenantId, cell, hourMs)
    const nowMs = this.#options.clock.now()
    const isDue = this.#isEnding || nowMs >= this.#hoursDueMs || this.#hours.size >= cellsMax
    if (!isDue || this.#hours.size === 0) return []
    const hours = [...this.#hours.values()]
    this.#hours = new Map()
    this.#hoursDueMs = nowMs + hoursWaitMs
    return [...hours, ...wholes(hours, hourMs)]
  }
}

/** Returns the sums over all tenants. */
function wholes(cells: readonly StatsCell[], stepMs: number): StatsCell[] {
  const sums = new Map<string, StatsCell>()
  for (const cell of cells) addTo(sums, '', cell, stepMs)
  return [...sums.values()]
}

function addTo(sums: Map<string, StatsCell>, tenantId: TenantId | '', cell: StatsCell, stepMs: number): void {
  const atMs = cell.atMs - (cell.atMs % stepMs)
  const name = `${atMs} ${tenantId}`
  const sum = sums.get(name) ?? emptyCell(tenantId, atMs)
  addCell(sum, cell)
  sums.set(name, sum)
}

export interface StatsBatch {
  readonly writer: string
  /** Sequence number, which grows with each batch of the writer. */
  readonly turn: number
  /** Contains at most one cell per tenant and minute. */
  readonly minutes: readonly StatsCell[]
  /** Contains at most one cell per tenant and hour. */
  readonly hours: readonly StatsCell[]
  /** Maximum state of the queue in each minute, by the start of the minute in ms since the epoch. */
  readonly queue: ReadonlyMap<number, QueueSight>
}

const columns = countColumns.join(', ')

const upsertText = (table: string, cells: string) => `
INSERT INTO ${table} AS known (tenant_id, at, ${columns}, refused_by)
SELECT tenant_id, at, ${countColumns.map((name) => `coalesce(${name}, 0)`).join(', ')}, refused_by
FROM turn, jsonb_to_recordset(${cells}::jsonb)
  AS c(tenant_id text, at timestamptz, ${countColumns.map((name) => `${name} integer`).join(', ')}, refused_by jsonb)
WHERE tenant_id = '' OR EXISTS (SELECT FROM tenants t WHERE t.id = c.tenant_id AND t.deleted_at IS NULL)
ORDER BY tenant_id, at
ON CONFLICT (tenant_id, at) DO UPDATE SET ${countColumns.map((name) => `${name} = known.${name} + excluded.${name}`).join(', ')},
  refused_by = CASE WHEN known.refused_by IS NULL OR excluded.refused_by IS NULL
    THEN coalesce(known.refused_by, excluded.refused_by)
    ELSE (SELECT jsonb_object_agg(cause, calls) FROM (
      SELECT cause, sum(calls::integer) AS calls
      FROM (SELECT * FROM jsonb_each_text(known.refused_by) UNION ALL SELECT * FROM jsonb_each_text(excluded.refused_by))
        AS each(cause, calls) GROUP BY cause) AS of_both) END`

// Stores the sequence number and adds the counts in one statement. A repeated batch waits for a write in progress, finds its number used
// and adds nothing. Rows are locked in key order and tables in a fixed order, so that writers do not deadlock. Rows of deleted tenants are
// skipped; retention removes rows that are written during a deletion.
const writeText = `
WITH turn AS (
  INSERT INTO stats_writers AS known (writer, turn, written_at) VALUES ($1, $2, now())
  ON CONFLICT (writer) DO UPDATE SET turn = excluded.turn, written_at = excluded.written_at WHERE known.turn < excluded.turn
  RETURNING 1
), hours AS (${upsertText('stats_hourly', '$3')}
), seen AS (
  INSERT INTO stats_queue AS known (at, due_count, oldest_age_ms)
  SELECT at, due_count, oldest_age_ms
  FROM jsonb_to_recordset($5::jsonb) AS q(at timestamptz, due_count integer, oldest_age_ms bigint) ORDER BY at
  ON CONFLICT (at) DO UPDATE SET due_count = greatest(known.due_count, excluded.due_count),
    oldest_age_ms = greatest(known.oldest_age_ms, excluded.oldest_age_ms)
)${upsertText('stats_minutely', '$4')}`

/** A batch whose sequence number is not higher than the writer's last one adds nothing. @throws errors of Postgres */
export async function writeStats(pool: Pool, batch: StatsBatch): Promise<void> {
  const { writer, turn, minutes, hours, queue } = batch
  const seen = [...queue].map(([atMs, { dueCount, oldestAgeMs }]) => {
    return { at: timeOf(atMs), due_count: dueCount, oldest_age_ms: Math.round(oldestAgeMs) }
  })
  const lists = [hours.map(rowOf), minutes.map(rowOf), seen].map((rows) => JSON.stringify(rows))
  await pool.query({ name: 'stats-write', text: writeText, values: [writer, turn, ...lists] })
}

/** Omits counts of 0, since most counts are 0. */
function rowOf({ tenantId, atMs, counts, causes }: StatsCell): object {
  const row: Record<string, unknown> = { tenant_id: tenantId, at: timeOf(atMs) }
  countColumns.forEach((name, at) => {
    if (counts[at]) row[name] = counts[at]
  })
  if (causes.size > 0) row['refused_by'] = Object.fromEntries(causes)
  return row
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}

const dayMs = 86_400_000
/** Retention by table. Hours: a chart of 30 days and some days to compare. Writers: longer than a batch is repeated. */
const keptMs = {
  stats_minutely: 2 * dayMs,
  stats_hourly: 35 * dayMs,
  stats_queue: 35 * dayMs,
  stats_writers: dayMs,
}

/** Tables of stats that have a retention. */
export const statsTables = Object.keys(keptMs) as (keyof typeof keptMs)[]

/** Removes expired rows of a table, at most 5 000, using an index. Idempotent. */
export function forgetStats(pool: Pool, table: keyof typeof keptMs, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table, before: new Date(nowMs - keptMs[table]) })
}

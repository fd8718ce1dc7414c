import type { Pool } from '#internal/storage/index.ts'
import { countColumns, type FigureCell, type QueueSight } from './stat.ts'

/** What one writer adds at once. */
export interface FigureBatch {
  /** Nobody else's name. */
  readonly writer: string
  /** Grows with each batch of the writer. */
  readonly turn: number
  /** None twice for one tenant and minute. */
  readonly minutes: readonly FigureCell[]
  /** None twice for one tenant and hour. */
  readonly hours: readonly FigureCell[]
  /** By the minute's start, ms since the epoch. */
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

// A writer's turn is raised and its counts are added in one commit, so that a repetition finds the turn taken and adds nothing; one
// that is still under way is waited for. Of each table rows are locked in the order of the key, and the tables in one order by everybody,
// so that two writers wait for each other in one direction only. A deleted tenant gets no rows; should one slip in at that moment, retention removes it.
const writeText = `
WITH turn AS (
  INSERT INTO figures_writers AS known (writer, turn, written_at) VALUES ($1, $2, now())
  ON CONFLICT (writer) DO UPDATE SET turn = excluded.turn, written_at = excluded.written_at WHERE known.turn < excluded.turn
  RETURNING 1
), hours AS (${upsertText('figures_hourly', '$3')}
), seen AS (
  INSERT INTO figures_queue AS known (at, due_count, oldest_age_ms)
  SELECT at, due_count, oldest_age_ms
  FROM jsonb_to_recordset($5::jsonb) AS q(at timestamptz, due_count integer, oldest_age_ms bigint) ORDER BY at
  ON CONFLICT (at) DO UPDATE SET due_count = greatest(known.due_count, excluded.due_count),
    oldest_age_ms = greatest(known.oldest_age_ms, excluded.oldest_age_ms)
)${upsertText('figures_minutely', '$4')}`

/**
 * Adds a batch in one statement. Repeating it, with the same writer and turn, adds nothing more; so does a turn before the writer's
 * last. @throws what Postgres throws
 */
export async function writeFigures(pool: Pool, batch: FigureBatch): Promise<void> {
  const { writer, turn, minutes, hours, queue } = batch
  const seen = [...queue].map(([atMs, sight]) => ({
    at: timeOf(atMs),
    due_count: sight.dueCount,
    oldest_age_ms: Math.round(sight.oldestAgeMs),
  }))
  await pool.query({
    name: 'figures-write',
    text: writeText,
    values: [
      writer,
      turn,
      JSON.stringify(hours.map(rowOf)),
      JSON.stringify(minutes.map(rowOf)),
      JSON.stringify(seen),
    ],
  })
}

/** Most counts of a cell are 0, and left out. */
function rowOf({ tenantId, atMs, counts, causes }: FigureCell): object {
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

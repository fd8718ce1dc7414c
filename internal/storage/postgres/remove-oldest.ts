import type { Day } from '#internal/base/index.ts'
import type { Pool } from './pool.ts'
import type { RemovedRows } from './retention.ts'

/** By which day the rows of each table go. Each of these columns has an index, as below. */
const dayColumns = { dedupe_keys: 'expires_on', failed_events: 'expires_on' } as const
/** By which time. */
const timeColumns = {
  figures_hourly: 'at',
  figures_minutely: 'at',
  figures_queue: 'at',
  figures_writers: 'written_at',
  usage_emissions: 'recorded_at',
  usage_hourly: 'hour',
} as const

/** Which rows of a table are to go: those of this day and of earlier ones, or those from before a moment. */
export type OldestRows =
  | { readonly table: keyof typeof dayColumns; readonly lastDay: Day; readonly rowsMax?: number }
  | { readonly table: keyof typeof timeColumns; readonly before: Date; readonly rowsMax?: number }

const rowsMaxDefault = 5_000

/**
 * Removes the oldest rows of a table, at most `rowsMax`, default 5 000, by the index over their time. Repeating it is safe, also
 * while another process does the same. @throws whatever Postgres throws
 */
export async function removeOldest(pool: Pool, rows: OldestRows): Promise<RemovedRows> {
  const { table, rowsMax = rowsMaxDefault } = rows
  const [column, isOver, value] =
    'lastDay' in rows
      ? [dayColumns[rows.table], '<= $1::date', rows.lastDay]
      : [timeColumns[rows.table], '< $1', rows.before]
  // Rows that another process removes or changes at this moment are passed by, so that nobody waits and none is counted twice.
  // A locked row stays where it is, so that it is found by its place, without a key. One text for a name, so rowsMax is a parameter.
  const { rowCount } = await pool.query({
    name: `remove_oldest_${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${column} ${isOver} ORDER BY ${column} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [value, rowsMax],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

import type { Day } from '#internal/base/index.ts'
import type { Pool } from './pool.ts'
import type { RemovedRows } from './retention.ts'

/** By what the rows of each table go. Each of these columns has an index. */
const timeColumns = {
  dedupe_keys: 'expires_on',
  failed_events: 'expires_on',
  figures_hourly: 'at',
  figures_minutely: 'at',
  figures_queue: 'at',
  figures_writers: 'written_at',
  usage_emissions: 'recorded_at',
  usage_hourly: 'hour',
} as const

/** Which rows of a table are to go. */
export interface OldestRows {
  readonly table: keyof typeof timeColumns
  /** Where the column is a time, what lies before a moment; where it is a day, what has this one or an earlier one. */
  readonly until: { readonly before: Date } | { readonly lastDay: Day }
  /** Default 5 000. */
  readonly rowsMax?: number
}

const rowsMaxDefault = 5_000

/**
 * Removes the oldest rows of a table, at most `rowsMax`, by the index over their time. Repeating it is safe, also while another
 * process does the same. @throws whatever Postgres throws
 */
export async function removeOldest(
  pool: Pool,
  { table, until, rowsMax = rowsMaxDefault }: OldestRows,
): Promise<RemovedRows> {
  const column = timeColumns[table]
  const [isOver, value] = 'before' in until ? ['< $1', until.before] : ['<= $1::date', until.lastDay]
  // Rows that another process removes or changes at this moment are passed by, so that nobody waits and none is counted twice.
  // A locked row stays where it is, so that it is found by its place, without a key. One text for a name: rowsMax is a parameter.
  const { rowCount } = await pool.query({
    name: `remove_oldest_${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM ${table} WHERE ${column} ${isOver} ORDER BY ${column} LIMIT $2 FOR UPDATE SKIP LOCKED))`,
    values: [value, rowsMax],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

import type { Pool, RemovedRows } from '#internal/storage/index.ts'

/** A table of figures whose rows go by time. */
export type FigureTable = 'figures_minutely' | 'figures_hourly' | 'figures_queue' | 'figures_writers'

const rowsMax = 5_000
const dayMs = 86_400_000
/** Hours: a chart of 30 days, and some days to compare. Writers: by then none repeats a batch. */
const kept: Record<FigureTable, { readonly column: string; readonly ms: number }> = {
  figures_minutely: { column: 'at', ms: 2 * dayMs },
  figures_hourly: { column: 'at', ms: 35 * dayMs },
  figures_queue: { column: 'at', ms: 35 * dayMs },
  figures_writers: { column: 'written_at', ms: dayMs },
}

/** Removes what of a table is kept no longer, at most 5 000 rows, by an index. Repeating it is safe. @throws whatever Postgres throws */
export async function forgetFigures(pool: Pool, table: FigureTable, nowMs: number): Promise<RemovedRows> {
  const { column, ms } = kept[table]
  const { rowCount } = await pool.query({
    name: `figures-forget-${table}`,
    text: `DELETE FROM ${table} WHERE ctid = ANY(ARRAY(
             SELECT ctid FROM ${table} WHERE ${column} < $1 ORDER BY ${column} LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    values: [new Date(nowMs - ms)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

/** The tables whose rows go by time. */
export const figureTables = Object.keys(kept) as FigureTable[]

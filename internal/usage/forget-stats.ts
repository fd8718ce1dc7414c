import { type Pool, type RemovedRows, removeOldest } from '#internal/storage/index.ts'

/** A table of figures whose rows go by time. */
export type FigureTable = 'figures_minutely' | 'figures_hourly' | 'figures_queue' | 'figures_writers'

const dayMs = 86_400_000
/** Hours: a chart of 30 days, and some days to compare. Writers: by then none repeats a batch. */
const keptMs: Record<FigureTable, number> = {
  figures_minutely: 2 * dayMs,
  figures_hourly: 35 * dayMs,
  figures_queue: 35 * dayMs,
  figures_writers: dayMs,
}

/** Removes what of a table is kept no longer, at most 5 000 rows, by an index. Repeating it is safe. @throws whatever Postgres throws */
export function forgetFigures(pool: Pool, table: FigureTable, nowMs: number): Promise<RemovedRows> {
  return removeOldest(pool, { table, before: new Date(nowMs - keptMs[table]) })
}

/** The tables whose rows go by time. */
export const figureTables = Object.keys(keptMs) as FigureTable[]

import { dayAfter } from '#internal/base/index.ts'
import type { Pool, RemovedRows } from '#internal/storage/index.ts'

const rowsMax = 5_000

/**
 * Removes simulations that have ended and are as old as their tenant's events get, at most 5 000, by the index over those. Repeating
 * it is safe, also while another does the same. @throws whatever Postgres throws
 */
export async function forgetSimulations(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query({
    name: 'simulations-forget',
    text: `DELETE FROM simulations WHERE id = ANY(ARRAY(
             SELECT id FROM simulations WHERE ended_at IS NOT NULL AND expires_on <= $1::date
             ORDER BY expires_on LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED))`,
    values: [dayAfter(nowMs, -1)],
  })
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === rowsMax }
}

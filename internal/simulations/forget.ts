import { dayAfter } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'

// By the index over those that have ended, in one short statement. Repeating it goes on.
const forgetText = `
DELETE FROM simulations WHERE id IN (
  SELECT id FROM simulations WHERE ended_at IS NOT NULL AND expires_on <= $1::date LIMIT $2)`

/**
 * Removes simulations that have ended and are as old as their tenant's events get, at most `rowsMax`; gives how many.
 * @throws whatever Postgres throws
 */
export async function forgetSimulations(pool: Pool, nowMs: number, rowsMax: number): Promise<number> {
  const { rowCount } = await pool.query(forgetText, [dayAfter(nowMs, -1), rowsMax])
  return rowCount ?? 0
}

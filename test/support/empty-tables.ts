import type { Pool } from '#internal/storage/index.ts'

/** Removes all rows. Unlike TRUNCATE it waits for no reader, and none for it: processes under test go on meanwhile. */
export async function emptyTables(pool: Pool, ...tables: readonly string[]): Promise<void> {
  for (const table of tables) await pool.query(`DELETE FROM ${table}`)
}

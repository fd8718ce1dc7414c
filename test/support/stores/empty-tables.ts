import type { Pool } from '#internal/storage/index.ts'

/** Deletes all rows. Unlike TRUNCATE it neither waits for readers nor blocks them, so processes under test continue. */
export async function emptyTables(pool: Pool, ...tables: readonly string[]): Promise<void> {
  for (const table of tables) await pool.query(`DELETE FROM ${table}`)
}

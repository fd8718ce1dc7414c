import { createPool, migrate } from '#internal/storage/index.ts'
import { createTestDatabase, type TestDatabase } from './stores/database.ts'

/** Creates a database with the product's schema for one test file, cloned from a template that is migrated once per process. */
export function createMigratedDatabase(): Promise<TestDatabase> {
  return createTestDatabase({ migrate: migrateUrl })
}

/** Migrates a database. */
export async function migrateUrl(url: string): Promise<void> {
  const bounds = { connectionsMax: 1, queryTimeoutMs: 30_000, connectTimeoutMs: 5_000 }
  const pool = createPool({ url, applicationName: 'latchkey test migration', ...bounds })
  try {
    await migrate(pool, { log: { info: () => {}, warn: () => {} } })
  } finally {
    await pool.end()
  }
}

import { eventReadSettings } from '#internal/events/index.ts'
import { createPool, type Pool } from '#internal/storage/index.ts'
import { createMigratedDatabase } from '../migrated-database.ts'

/** Database for inspecting query plans. */
export interface PlanDatabase {
  /** Session with the settings of the event list. */
  readonly pool: Pool
  /** Ends the session and drops the database. */
  close(): Promise<void>
}

/** Creates a database with the schema. The caller closes it. */
export async function openPlanDatabase(): Promise<PlanDatabase> {
  const database = await createMigratedDatabase()
  const pool = createPool({
    url: database.url,
    applicationName: 'test plan',
    sessionSettings: eventReadSettings,
    connectionsMax: 1,
    queryTimeoutMs: 60_000,
    connectTimeoutMs: 5_000,
  })
  return {
    pool,
    async close() {
      await pool.end()
      await database.drop()
    },
  }
}

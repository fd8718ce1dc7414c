import { systemClock } from '#internal/base/index.ts'
import { createPool, ensurePartitionsAhead, migrate, type StoreAddress } from '#internal/storage/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'
import { reachPostgres } from './reach-postgres.ts'

/** Brings the schema up to date, one process at a time. Returns the versions before and after. @throws errors of Postgres */
export async function applyMigrations(
  database: StoreAddress,
  {
    log,
    applicationName,
    waitSeconds,
  }: {
    readonly log: Logger
    readonly applicationName: string
    /** Maximum wait in seconds for Postgres to become usable. */
    readonly waitSeconds: number
  },
) {
  const pool = createPool({
    ...database,
    applicationName,
    connectionsMax: 1,
    queryTimeoutMs: 60_000,
    connectTimeoutMs: 10_000,
  })
  try {
    await reachPostgres(pool, waitSeconds, log)
    const versions = await migrate(pool, { log })
    // A failure here is harmless: forwarders also create these partitions, and intake creates missing ones.
    await ensurePartitionsAhead(pool, systemClock.now()).then(
      (made) => log.info({ made }, 'partitions of the next days exist'),
      (cause: unknown) => log.warn({ cause }, 'partitions of the next days could not be created'),
    )
    return versions
  } finally {
    await pool.end()
  }
}

import { readConfigOrExit } from '#cmd/serving/run.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import { systemClock } from '#internal/base/index.ts'
import { createPool, ensurePartitionsAhead, migrate } from '#internal/storage/index.ts'
import { createLogger } from '#internal/telemetry/index.ts'
import { version } from '../../package.json'
import { reachPostgres } from './reach-postgres.ts'

const config = readConfigOrExit('migrate')
const log = createLogger({ level: config.logLevel, service: 'latchkey-migrate', version })
const pool = createPool({
  ...databaseOf(config),
  applicationName: 'latchkey-migrate',
  connectionsMax: 1,
  queryTimeoutMs: 60_000,
  connectTimeoutMs: 10_000,
})
try {
  await reachPostgres(pool, config.migrateWaitSeconds, log)
  const { versionBefore, versionAfter } = await migrate(pool, { log })
  log.info({ versionBefore, versionAfter }, 'schema is up to date')
  // A failure here is harmless: forwarders also create these partitions, and intake creates missing ones.
  await ensurePartitionsAhead(pool, systemClock.now()).then(
    (made) => log.info({ made }, 'partitions of the next days exist'),
    (cause: unknown) => log.warn({ cause }, 'partitions of the next days could not be created'),
  )
} catch (cause) {
  log.error({ cause }, 'migration failed')
  process.exitCode = 1
} finally {
  await pool.end()
  log.close()
}

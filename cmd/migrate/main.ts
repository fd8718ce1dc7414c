import { readConfigOrExit } from '#cmd/serving/run.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import { createLogger } from '#internal/telemetry/index.ts'
import { version } from '../../package.json'
import { applyMigrations } from './apply.ts'

const config = readConfigOrExit('migrate')
const log = createLogger({ level: config.logLevel, service: 'latchkey-migrate', version })
try {
  const { versionBefore, versionAfter } = await applyMigrations(databaseOf(config), {
    log,
    applicationName: 'latchkey-migrate',
    waitSeconds: config.migrateWaitSeconds,
  })
  log.info({ versionBefore, versionAfter }, 'schema is up to date')
} catch (cause) {
  log.error({ cause }, 'migration failed')
  process.exitCode = 1
} finally {
  log.close()
}

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { startApi } from '#cmd/api/app.ts'
import { openBackofficePort } from '#cmd/backoffice/port.ts'
import { startDeliveries } from '#cmd/forwarder/deliveries.ts'
import { startReplays } from '#cmd/forwarder/replays.ts'
import { startPartitionsAhead, startRetention } from '#cmd/forwarder/retention.ts'
import { applyMigrations } from '#cmd/migrate/apply.ts'
import { openFolderTenants } from '#cmd/serving/folder-tenants.ts'
import { openLoop } from '#cmd/serving/loop.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { type Operators, OperatorsInFile } from '#internal/access/index.ts'
import type { Config } from '#internal/config/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'

type RunConfig = Omit<Config<'run'>, 'keyRing'> & { readonly keyRing: KeyRing }

/**
 * Starts the whole service in one process, in this order: schema, API, dashboard, tenants of the folder, deliveries. Several such processes
 * can share the stores. @throws if the tenants folder does not exist
 */
export async function startRun(host: Host, config: RunConfig): Promise<ServingPorts> {
  const { log } = host
  const tenantsDir = resolve(config.tenantsDir)
  if (!existsSync(tenantsDir))
    throw new Error(`the folder ${tenantsDir} does not exist: create it, or set LATCHKEY_TENANTS_DIR`)
  const database = databaseOf(config)
  const versions = await applyMigrations(database, {
    ...{ log, applicationName: 'latchkey-run migrate', waitSeconds: config.migrateWaitSeconds },
  })
  log.info(versions, 'schema is up to date')
  const api = await startApi(host, config)
  const { directory, redis, secrets, keyRingGate, settings, stats } = api
  const backofficePort = await openBackofficePort(
    host,
    {
      ...{ ...config, bindAddress: config.backofficeBindAddress ?? config.bindAddress },
      operators: await openOperators(host, config.operatorsFile),
    },
    api,
  )
  await openFolderTenants(host, {
    ...{ database, redis, directory, tenantsDir, dataDir: resolve(config.dataDir), missing: 'keep' },
    ...{ keyRing: config.keyRing, keyRingOpened: keyRingGate.opened },
    ...{ callbackBounds: callbackBoundsOf(config), publicUrl: config.publicUrl },
  })
  const pool = await openPostgres(host, 'postgres of partitions', {
    ...{ ...database, applicationName: 'latchkey-run', connectionsMax: 1, queryTimeoutMs: 5_000 },
  })
  await startPartitionsAhead(host, pool)
  await startRetention(host, config)
  await startDeliveries(host, config, { redis, directory, secrets, keyRingGate, settings, stats })
  await startReplays(host, config, redis)
  log.info({ backofficePort }, 'dashboard is open')
  return { port: api.port, opsPort: api.opsPort }
}

/** Interval in ms at which the file of operators is checked for changes. */
const operatorsMs = 2_000

/** Reads the file of operators until the scope closes, and again when it changes. */
async function openOperators(host: Host, path: string | undefined): Promise<Operators> {
  const { log } = host
  const operators = new OperatorsInFile({
    path: path ?? '',
    onRead(result) {
      if ('problem' in result)
        log.error(
          { problem: result.problem },
          'the file of operators is invalid, its last valid content applies',
        )
      else log.info({ operators: result.count }, 'the file of operators was read')
    },
  })
  if (path === undefined) {
    log.warn({}, 'LATCHKEY_OPERATORS_FILE is not set: only API keys of tenants open the dashboard')
    return operators
  }
  await operators.refresh()
  await openLoop(host, {
    ...{ name: 'operators', intervalMs: operatorsMs, turnMsMax: 10_000 },
    runOnce: () => operators.refresh(),
    onError: (cause, failures) => log.warn({ cause, failures }, 'the file of operators could not be read'),
  })
  return operators
}

import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { applyMigrations } from '#cmd/migrate/apply.ts'
import { openLoop } from '#cmd/serving/loop.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { type Operators, OperatorsInFile } from '#internal/access/index.ts'
import type { Config } from '#internal/config/index.ts'
import type { KeyRing } from '#internal/tenants/index.ts'
import { startService } from './service.ts'

export type RunConfig = Omit<Config<'run'>, 'keyRing'> & { readonly keyRing: KeyRing }

/**
 * Starts the service without Kubernetes: brings the schema up to date, then starts the chosen processes with the tenants of a folder and
 * the operators of a file. @throws if the tenants folder does not exist
 */
export async function startRun(host: Host, config: RunConfig): Promise<ServingPorts> {
  const { log } = host
  const tenantsDir = resolve(config.tenantsDir)
  if (config.runProcesses.includes('operator') && !existsSync(tenantsDir))
    throw new Error(`the folder ${tenantsDir} does not exist: create it, or set LATCHKEY_TENANTS_DIR`)
  const versions = await applyMigrations(databaseOf(config), {
    log,
    applicationName: 'latchkey-run migrate',
    waitSeconds: config.migrateWaitSeconds,
  })
  log.info(versions, 'schema is up to date')
  const operators = await openOperators(host, config)
  const { core, api, backofficePort } = await startService(host, {
    ...config,
    operators,
    rules: 'production',
  })
  return { port: api?.port, backofficePort, opsPort: core.ops.port }
}

/** Interval in ms at which the operators file is checked for changes. */
const operatorsMs = 2_000

/** Reads the operators file until the scope closes, and again after each change. */
async function openOperators(
  host: Host,
  { operatorsFile: path, runProcesses }: Pick<RunConfig, 'operatorsFile' | 'runProcesses'>,
): Promise<Operators> {
  const { log } = host
  const operators = new OperatorsInFile({
    path: path ?? '',
    onRead(result) {
      if ('problem' in result)
        log.error({ problem: result.problem }, 'operators file is invalid; its last valid content applies')
      else log.info({ operators: result.count }, 'operators file loaded')
    },
  })
  if (!runProcesses.includes('backoffice')) return operators
  if (path === undefined) {
    log.warn({}, 'LATCHKEY_OPERATORS_FILE is not set: only API keys of tenants open the dashboard')
    return operators
  }
  await operators.refresh()
  await openLoop(host, {
    name: 'operators',
    intervalMs: operatorsMs,
    turnMsMax: 10_000,
    runOnce: () => operators.refresh(),
    onError: (cause, failures) => log.warn({ failures, cause }, 'operators file could not be read'),
  })
  return operators
}

import { readConfigOrExit } from '#cmd/serving/run.ts'
import { createProcessTelemetry, openTraces } from '#cmd/serving/telemetry.ts'
import { StoreStartError } from '#internal/dev/index.ts'
import { runProcess, type Scope } from '#internal/process/index.ts'
import { version } from '../../package.json'
import { startDev } from './app.ts'

const parentCheckMs = 500
const config = readConfigOrExit('dev')
const telemetry = await createProcessTelemetry({ ...config, service: 'latchkey-dev', version })
await runProcess({
  name: 'dev',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    endWithParent(scope)
    const host = { ...telemetry, scope }
    await openTraces(host)
    await startDev(host, config, process.env)
  },
  explain: (cause) => (cause instanceof StoreStartError ? cause.message : undefined),
})

/** Stops the dev server when its terminal or parent process ends. A killed npm sends no signal, so the stores would keep running. */
function endWithParent(scope: Scope): void {
  process.on('SIGHUP', () => scope.stop())
  const parent = process.ppid
  setInterval(() => {
    if (process.ppid !== parent) scope.stop()
  }, parentCheckMs).unref()
}

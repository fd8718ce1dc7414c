import { createTelemetry } from '#cmd/api/telemetry.ts'
import { readConfigOrExit } from '#cmd/serving/run.ts'
import { openTraces } from '#cmd/serving/telemetry.ts'
import { StoreStartError } from '#internal/dev/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { version } from '../../package.json'
import { startDev } from './app.ts'
import { endWithParent } from './lifetime.ts'

const config = readConfigOrExit('dev')
const telemetry = await createTelemetry({ ...config, service: 'latchkey-dev', version })
await runProcess({
  name: 'dev',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    endWithParent(scope)
    await openTraces(telemetry, scope)
    await startDev(config, process.env, telemetry, scope)
  },
  explain: (cause) => (cause instanceof StoreStartError ? cause.message : undefined),
})

import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startBackoffice } from './app.ts'

const config = readConfigOrExit('backoffice')
await runServing('backoffice', config, ({ keyRing, version, telemetry, scope }) =>
  startBackoffice({ ...config, keyRing, version }, telemetry, scope),
)

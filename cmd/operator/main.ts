import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startOperator } from './app.ts'

const config = readConfigOrExit('operator')
await runServing('operator', config, ({ keyRing, version, telemetry, scope }) =>
  startOperator({ ...config, keyRing, version }, telemetry, scope),
)

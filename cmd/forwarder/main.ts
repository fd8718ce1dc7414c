import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startForwarder } from './app.ts'

const config = readConfigOrExit('forwarder')
await runServing('forwarder', config, ({ keyRing, telemetry, scope }) =>
  startForwarder({ ...config, keyRing }, telemetry, scope),
)

import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startApi } from './app.ts'
import { withRecordEvents } from './telemetry.ts'

const config = readConfigOrExit('api')
await runServing('api', config, ({ keyRing, telemetry, scope }) =>
  startApi({ ...config, keyRing }, withRecordEvents(telemetry), scope),
)

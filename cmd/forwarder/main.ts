import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startForwarder } from './app.ts'

await runServing('forwarder', readConfigOrExit('forwarder'), startForwarder)

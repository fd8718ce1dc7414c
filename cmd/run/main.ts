import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startRun } from './app.ts'

await runServing('run', readConfigOrExit('run'), startRun)

import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startApi } from './app.ts'

await runServing('api', readConfigOrExit('api'), startApi)

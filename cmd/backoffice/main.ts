import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startBackoffice } from './app.ts'

await runServing('backoffice', readConfigOrExit('backoffice'), startBackoffice)

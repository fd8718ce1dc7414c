import { readConfigOrExit, runServing } from '#cmd/serving/run.ts'
import { startOperator } from './app.ts'

await runServing('operator', readConfigOrExit('operator'), startOperator)

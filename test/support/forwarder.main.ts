/** Forwarder process with a given lease duration, so that tests do not wait for the real one. */

import { startForwarder } from '#cmd/forwarder/app.ts'
import { createProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { readConfig } from '#internal/config/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { testKeyRing } from './api.ts'

const read = readConfig(process.env, { process: 'forwarder' })
if (read.kind === 'invalid') throw new Error(read.problems.join('\n'))
const { config } = read
const telemetry = await createProcessTelemetry({
  ...config,
  service: 'latchkey-forwarder',
  version: '0.0.0-test',
})
await runProcess({
  name: 'forwarder',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    const leaseMs = Number(process.argv[2])
    const { opsPort } = await startForwarder(
      { ...telemetry, scope },
      { ...config, keyRing: testKeyRing, leaseMs },
    )
    telemetry.log.info({ opsPort }, 'listening')
  },
})

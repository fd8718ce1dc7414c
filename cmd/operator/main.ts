import { createProcessTelemetry } from '#cmd/api/telemetry.ts'
import { printableConfig, readConfig } from '#internal/config/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { parseKeyRing } from '#internal/tenants/index.ts'
import { version } from '../../package.json'
import { startOperator } from './app.ts'

const read = readConfig(process.env, { process: 'operator' })
if (read.kind === 'invalid') {
  for (const problem of read.problems) process.stderr.write(`${problem}\n`)
  process.exit(2)
}
const { config } = read
const ring = parseKeyRing(config.keyRing)
if (ring.kind === 'invalid') {
  process.stderr.write(`LATCHKEY_KEY_RING: ${ring.message}\n`)
  process.exit(2)
}
const telemetry = await createProcessTelemetry({ ...config, service: 'latchkey-operator', version })
telemetry.log.info({ config: printableConfig(config) }, 'starting')
await runProcess({
  name: 'operator',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    await scope.open({
      name: 'traces',
      open: () => telemetry.tracing,
      close: (tracing) => tracing.close(2000),
    })
    const { opsPort } = await startOperator({ ...config, keyRing: ring.keyRing, version }, telemetry, scope)
    telemetry.log.info({ opsPort }, 'listening')
  },
})

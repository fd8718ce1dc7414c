import { createProcessTelemetry } from '#cmd/api/telemetry.ts'
import { printableConfig, readConfig } from '#internal/config/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { parseKeyRing } from '#internal/tenants/index.ts'
import { version } from '../../package.json'
import { startForwarder } from './app.ts'

const read = readConfig(process.env, { process: 'forwarder' })
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
const telemetry = await createProcessTelemetry({ ...config, service: 'latchkey-forwarder', version })
telemetry.log.info({ config: printableConfig(config) }, 'starting')
await runProcess({
  name: 'forwarder',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    await scope.open({
      name: 'traces',
      open: () => telemetry.tracing,
      close: (tracing) => tracing.close(2000),
    })
    const { opsPort } = await startForwarder({ ...config, keyRing: ring.keyRing }, telemetry, scope)
    telemetry.log.info({ opsPort }, 'listening')
  },
})

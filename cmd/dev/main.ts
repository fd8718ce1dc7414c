import { createTelemetry } from '#cmd/api/telemetry.ts'
import { readConfig } from '#internal/config/index.ts'
import { StoreStartError } from '#internal/dev/index.ts'
import { runProcess } from '#internal/process/index.ts'
import { version } from '../../package.json'
import { startDev } from './app.ts'
import { endWithParent } from './lifetime.ts'

const read = readConfig(process.env, { process: 'dev' })
if (read.kind === 'invalid') {
  for (const problem of read.problems) process.stderr.write(`${problem}\n`)
  process.exit(2)
}
const { config } = read
const telemetry = await createTelemetry({ ...config, service: 'latchkey-dev', version })
await runProcess({
  name: 'dev',
  log: telemetry.log,
  graceMs: config.shutdownGraceSeconds * 1000,
  start: async (scope) => {
    endWithParent(scope)
    await scope.open({
      name: 'traces',
      open: () => telemetry.tracing,
      close: (tracing) => tracing.close(2000),
    })
    await startDev(config, process.env, telemetry, scope)
  },
  explain: (cause) => (cause instanceof StoreStartError ? cause.message : undefined),
})

import { join, resolve } from 'node:path'
import { startDriver } from '#clients/conformance/driver.ts'
import { testRecords } from '#clients/conformance/record-suite.ts'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'

const clients = resolve(import.meta.dir, '../../../clients')
const env = { PYTHONPATH: join(clients, 'python/src'), PYTHONDONTWRITEBYTECODE: '1', PYTHONUTF8: '1' }

for (const kind of ['sync', 'async'] as const) {
  testRecords({
    title: `Python, ${kind === 'sync' ? 'functions' : 'coroutines'}`,
    language: 'python',
    async startDriver() {
      const environment = await ensurePythonEnvironment(join(import.meta.dir, 'requirements.txt'))
      return startDriver(
        [join(environment, 'bin/python'), join(clients, 'conformance/python.driver.py'), kind],
        env,
      )
    },
  })
}

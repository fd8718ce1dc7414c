import { join, resolve } from 'node:path'
import { startDriver } from '#clients/conformance/driver.ts'
import { testRecords } from '#clients/conformance/record-suite.ts'
import { startKitProgram } from '#clients/conformance/services.ts'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'

const clients = resolve(import.meta.dir, '../../../clients')
const env = { PYTHONPATH: join(clients, 'python/src'), PYTHONDONTWRITEBYTECODE: '1', PYTHONUTF8: '1' }

async function findPython(): Promise<string> {
  const requirements = join(import.meta.dir, 'requirements.txt')
  return join(await ensurePythonEnvironment(requirements), 'bin/python')
}

for (const kind of ['sync', 'async'] as const) {
  testRecords({
    title: `Python, ${kind === 'sync' ? 'functions' : 'coroutines'}`,
    language: 'python',
    startDriver: async () =>
      startDriver([await findPython(), join(clients, 'conformance/python.driver.py'), kind], env),
    startKit: async () =>
      startKitProgram([await findPython(), join(clients, 'conformance/python.kit.py'), kind], env),
  })
}

import { join, resolve } from 'node:path'
import { testApps } from '#clients/conformance/app-suite.ts'
import { startDriver } from '#clients/conformance/driver.ts'
import { testRecords } from '#clients/conformance/record-suite.ts'
import { startKitProgram } from '#clients/conformance/services.ts'
import { ensurePythonEnvironment } from '#internal/dev/index.ts'

const clients = resolve(import.meta.dir, '../../../clients')
const env = { PYTHONPATH: join(clients, 'python/src'), PYTHONDONTWRITEBYTECODE: '1', PYTHONUTF8: '1' }

/** Returns the command of a program of the conformance suite. */
async function commandOf(name: string, ...args: string[]): Promise<string[]> {
  const environment = await ensurePythonEnvironment(join(import.meta.dir, 'requirements.txt'))
  return [join(environment, 'bin/python'), join(clients, 'conformance', name), ...args]
}

for (const kind of ['sync', 'async'] as const) {
  testRecords({
    title: `Python, ${kind === 'sync' ? 'functions' : 'coroutines'}`,
    language: 'python',
    startDriver: async () => startDriver(await commandOf('python.driver.py', kind), env),
    startKit: async () => startKitProgram(await commandOf('python.kit.py', kind), env),
  })
}

testApps('python', async () => startDriver(await commandOf('python.apps.py'), env))

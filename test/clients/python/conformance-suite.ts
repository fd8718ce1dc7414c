import { join, resolve } from 'node:path'
import { testApps } from '#clients/conformance/app-suite.ts'
import type { Part } from '#clients/conformance/cases.ts'
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

const kinds = [
  { kind: 'sync', title: 'Python, functions', firstService: 1 },
  { kind: 'async', title: 'Python, coroutines', firstService: 2 },
] as const

/** Declares the tests of a part of the matrix. */
export function testPython(part: Part): void {
  for (const { kind, title, firstService } of kinds)
    testRecords(
      {
        title,
        language: 'python',
        firstService,
        startDriver: async () => startDriver(await commandOf('python.driver.py', kind), env),
        startKit: async () => startKitProgram(await commandOf('python.kit.py', kind), env),
      },
      part,
    )
  testApps('python', part, async () => startDriver(await commandOf('python.apps.py'), env))
}

import { afterAll } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { testApps } from './app-suite.ts'
import type { Part } from './cases.ts'
import { startDriver } from './driver.ts'
import { testRecords } from './record-suite.ts'
import { startKit } from './services.ts'

const root = resolve(import.meta.dir, '../..')
mkdirSync(join(root, '.latchkey'), { recursive: true })
// Below the repository, so that the programs find their packages.
const folder = mkdtempSync(join(root, '.latchkey', 'conformance-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

/** Starts a program of this folder on Node. */
async function startOnNode(name: string) {
  const entrypoints = [join(import.meta.dir, `${name}.ts`)]
  const options = { target: 'node', packages: 'external', outdir: folder, naming: '[name].mjs' } as const
  const built = await Bun.build({ entrypoints, ...options })
  if (!built.success) throw new Error(built.logs.join('\n'))
  return startDriver(['node', join(folder, `${name}.mjs`)])
}

/** Declares the tests of a part of the matrix. */
export function testTypeScript(part: Part): void {
  testRecords(
    {
      title: 'TypeScript',
      language: 'typescript',
      firstService: 0,
      startDriver: () => startOnNode('typescript.driver'),
      startKit,
    },
    part,
  )
  const onBun = [process.execPath, join(import.meta.dir, 'typescript.apps.ts')]
  testApps('bun', part, async () => startDriver(onBun))
  testApps('node', part, () => startOnNode('typescript.apps'))
}

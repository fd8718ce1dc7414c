import { afterAll } from 'bun:test'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { startDriver } from './driver.ts'
import { testRecords } from './record-suite.ts'
import { startKit } from './services.ts'

const root = resolve(import.meta.dir, '../..')
mkdirSync(join(root, '.latchkey'), { recursive: true })
// In the repository, so that the program finds its packages.
const folder = mkdtempSync(join(root, '.latchkey', 'conformance-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

testRecords({
  title: 'TypeScript',
  language: 'typescript',
  async startDriver() {
    const entrypoints = [join(import.meta.dir, 'typescript.driver.ts')]
    const built = await Bun.build({ entrypoints, target: 'node', outdir: folder, naming: '[name].mjs' })
    if (!built.success) throw new Error(built.logs.join('\n'))
    return startDriver(['node', join(folder, 'typescript.driver.mjs')])
  },
  startKit,
})

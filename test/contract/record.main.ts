// Records the surface of the commit that is checked out, and its git tree, as those of version N−1: npm run record
import { mkdirSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readEventTypes } from './event-types.ts'
import { jsonText } from './plain.ts'
import { recordedFolder } from './recorded.ts'
import { readSurface } from './surface.ts'

function git(...args: readonly string[]): string {
  return Bun.spawnSync(['git', ...args], { cwd: resolve(import.meta.dir, '../..'), stderr: 'inherit' })
    .stdout.toString()
    .trim()
}

const changed = git('status', '--porcelain', '--', '.', ':(exclude)test/contract/recorded')
if (changed !== '') {
  console.error(`Commit these changes first, so that a git tree has what is recorded:\n${changed}`)
  process.exit(1)
}
const tree = git('rev-parse', 'HEAD^{tree}')
mkdirSync(recordedFolder, { recursive: true })
for (const [name, part] of Object.entries({ ...(await readSurface()), types: readEventTypes(), tree })) {
  const path = join(recordedFolder, `${name}.json`)
  writeFileSync(path, `${jsonText(part)}\n`)
  console.log(path)
}

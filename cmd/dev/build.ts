import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { buildSite } from './docs/site.ts'
import { buildPackage } from './release/npm-package.ts'
import { buildProgram, programTargets } from './release/programs.ts'

/** The program for a platform, or the package for npm. */
export const buildTargets = [...programTargets, 'npm'] as const

export type BuildTarget = (typeof buildTargets)[number]

const root = resolve(import.meta.dir, '../..')

/**
 * Empties a folder. Builds the documentation, then writes the archive of each target and the hashes (`SHA256SUMS`) to the folder.
 * @returns the names of the archives, sorted
 * @throws if an archive cannot be built
 */
export async function buildRelease(folder: string, targets: readonly BuildTarget[]): Promise<string[]> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  await buildSite()
  const scratch = mkdtempSync(join(folder, 'scratch-'))
  try {
    for (const target of targets)
      if (target === 'npm') await buildPackage(folder, scratch)
      else await buildProgram(target, folder, scratch)
  } finally {
    rmSync(scratch, { recursive: true })
  }
  const names = readdirSync(folder).toSorted()
  const sums = names.map((name) => {
    const hash = createHash('sha256').update(readFileSync(join(folder, name)))
    return `${hash.digest('hex')}  ${name}\n`
  })
  writeFileSync(join(folder, 'SHA256SUMS'), sums.join(''))
  return names
}

/** Returns the targets, by default all of them, or the help text if the arguments are invalid. */
function parseTargets(args: readonly string[]): readonly BuildTarget[] | string {
  const usage = `usage: npm run build -- [--target ${buildTargets.join('|')}]...`
  try {
    const { values } = parseArgs({
      args: [...args],
      options: { target: { type: 'string', multiple: true } },
    })
    const targets = buildTargets.filter((target) => values.target?.includes(target) ?? true)
    const unknown = values.target?.find((name) => !targets.some((target) => target === name))
    return unknown === undefined ? targets : `unknown target ${unknown}\n${usage}`
  } catch (error) {
    return `${Error.isError(error) ? error.message : String(error)}\n${usage}`
  }
}

if (import.meta.main) {
  const targets = parseTargets(process.argv.slice(2))
  if (typeof targets === 'string') {
    console.error(targets)
    process.exit(2)
  }
  const folder = join(root, '.latchkey', 'build')
  for (const name of await buildRelease(folder, targets)) {
    const megabytes = statSync(join(folder, name)).size / 1e6
    console.log(`${join('.latchkey', 'build', name)}  ${megabytes.toFixed(1)} MB`)
  }
}

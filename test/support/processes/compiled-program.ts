import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { join, resolve } from 'node:path'
import { compileCommand } from '#cmd/dev/release/compile-command.ts'

const root = resolve(import.meta.dir, '../../..')
/** Folder with one subfolder per hash of sources; those not used for an hour are removed. */
const kept = join(root, '.latchkey', 'programs')
const keptMsMax = 3_600_000
const compiled = new Map<string, string>()

/**
 * Returns the path of the compiled program, built by the Dockerfile's command for this machine's architecture. It is built once per
 * version of the sources, in about six seconds of processor time, and starts with a hundredth of the time that a start of the sources takes.
 * @param sources folder with the sources, default this repository
 * @throws with the compiler's output
 */
export function compiledProgram(sources: string = root): string {
  const known = compiled.get(sources)
  if (known !== undefined) return known
  const folder = join(kept, hashOfSources(sources))
  if (!existsSync(folder)) {
    removeOld()
    // Renames the folder when it is complete, since other test processes may compile at the same time.
    const part = `${folder}.${process.pid}`
    const { options, entryPoints } = compileCommand(sources)
    const args = [...options, `--outfile=${join(part, 'latchkey')}`, ...entryPoints]
    const child = Bun.spawnSync([process.execPath, 'build', ...args], { cwd: sources, stdout: 'ignore' })
    if (child.exitCode !== 0) throw new Error(`the program does not compile:\n${child.stderr.toString()}`)
    if (existsSync(folder)) rmSync(part, { recursive: true })
    else renameSync(part, folder)
  }
  // Marks the program as in use, since compiling other sources removes old programs.
  utimesSync(folder, new Date(), new Date())
  const program = join(folder, 'latchkey')
  compiled.set(sources, program)
  return program
}

function hashOfSources(sources: string): string {
  const hash = new Bun.CryptoHasher('sha256').update(Bun.version)
  const files = ['cmd', 'internal', 'config/providers'].flatMap((folder) => [
    ...new Bun.Glob(`${folder}/**/*`).scanSync({ cwd: sources }),
  ])
  // Includes the documentation in the program if it is built.
  const site = '.latchkey/docs/site.bin'
  if (existsSync(join(sources, site))) files.push(site)
  for (const file of [...files.sort(), 'package.json', 'bun.lock', 'Dockerfile'])
    if (!/\.test\.tsx?$/.test(file)) hash.update(file).update(readFileSync(join(sources, file)))
  return hash.digest('hex').slice(0, 16)
}

function removeOld(): void {
  mkdirSync(kept, { recursive: true })
  for (const name of readdirSync(kept)) {
    const path = join(kept, name)
    const { mtimeMs } = statSync(path, { throwIfNoEntry: false }) ?? { mtimeMs: 0 }
    if (mtimeMs < Date.now() - keptMsMax) rmSync(path, { recursive: true, force: true })
  }
}

if (import.meta.main) compiledProgram()

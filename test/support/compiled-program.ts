import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')
/** Folder with one subfolder per hash of sources; those older than an hour are removed. */
const kept = join(root, '.latchkey', 'programs')
const keptMsMax = 3_600_000
let compiled: string | undefined

/**
 * Returns the path of the compiled program, built by the Dockerfile's command for this machine's architecture. It is built once per
 * version of the sources (about a second of CPU), and starts with a third of the CPU that running the sources takes. @throws with the
 * compiler's output
 */
export function compiledProgram(): string {
  if (compiled !== undefined) return compiled
  const folder = join(kept, hashOfSources())
  if (!existsSync(folder)) {
    removeOld()
    // Renamed when complete: other test processes may compile at the same time.
    const part = `${folder}.${process.pid}`
    const options = [...dockerfileOptions(), `--outfile=${join(part, 'latchkey')}`]
    const child = Bun.spawnSync([process.execPath, 'build', ...options], { cwd: root, stdout: 'ignore' })
    if (child.exitCode !== 0) throw new Error(`the program does not compile:\n${child.stderr.toString()}`)
    if (existsSync(folder)) rmSync(part, { recursive: true })
    else renameSync(part, folder)
  }
  const program = join(folder, 'latchkey')
  compiled = program
  return program
}

function hashOfSources(): string {
  const hash = new Bun.CryptoHasher('sha256').update(Bun.version)
  const files = ['cmd', 'internal'].flatMap((folder) => [
    ...new Bun.Glob(`${folder}/**/*`).scanSync({ cwd: root }),
  ])
  for (const file of [...files.sort(), 'package.json', 'bun.lock', 'Dockerfile'])
    if (!/\.test\.tsx?$/.test(file)) hash.update(file).update(readFileSync(join(root, file)))
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

/** Returns the arguments of `bun build` in the Dockerfile, without target platform and output path. */
function dockerfileOptions(): readonly string[] {
  const dockerfile = readFileSync(join(root, 'Dockerfile'), 'utf8')
  const [, command] = /^ *bun build ((?:.*\\\n)*.*)$/m.exec(dockerfile) ?? []
  if (command === undefined) throw new Error('the Dockerfile has no line that begins with "bun build"')
  const words = command.replaceAll('\\\n', ' ').trim().split(/\s+/)
  return words.filter((word) => !/^--(target|outfile)=/.test(word))
}

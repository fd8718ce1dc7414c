import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { readRecordedTree } from '#test/contract/recorded.ts'

const root = resolve(import.meta.dir, '../../..')

/** Git tree of version N−1. Its baseline has the same tables until there is a release, since a database of another baseline is refused. */
const previousTree = readRecordedTree()

const kept = ['cmd', 'internal', 'config', 'crds', 'test/support', ':(exclude,glob)**/*.test.*', 'Dockerfile']
const configuration = ['package.json', 'bun.lock', 'bunfig.toml', 'tsconfig.json']

/**
 * Returns the folder of the sources of version N−1 with the packages of its lock file. They are taken from git once and kept. @throws if
 * git lacks the tree
 */
export function previousSources(): string {
  const folder = join(root, '.latchkey', 'previous', previousTree)
  if (existsSync(folder)) return folder
  // Renames the folder when it is complete, since other test processes may unpack at the same time.
  const part = `${folder}.${process.pid}`
  rmSync(part, { recursive: true, force: true })
  mkdirSync(part, { recursive: true })
  run(['tar', '-x', '-C', part], { stdin: archive() })
  installPackages(part)
  if (existsSync(folder)) rmSync(part, { recursive: true })
  else renameSync(part, folder)
  return folder
}

function archive(): Uint8Array {
  const hasTree = () => Bun.spawnSync(['git', 'cat-file', '-e', previousTree], { cwd: root }).exitCode === 0
  // Fetches the history, since a shallow clone may lack the tree.
  if (!hasTree()) Bun.spawnSync(['git', 'fetch', '--quiet', '--unshallow'], { cwd: root })
  if (!hasTree())
    throw new Error(
      `The tests of two versions beside each other need the git tree ${previousTree}: run them in a clone with history`,
    )
  return run(['git', 'archive', '--format=tar', previousTree, '--', ...kept, ...configuration], {})
}

function installPackages(folder: string): void {
  const lockOf = (of: string) => readFileSync(join(of, 'bun.lock'), 'utf8')
  if (lockOf(folder) === lockOf(root)) symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
  else
    run([process.execPath, 'install', '--frozen-lockfile', '--production', '--ignore-scripts', '--silent'], {
      cwd: folder,
    })
}

function run(
  command: readonly string[],
  { cwd = root, stdin }: { readonly cwd?: string; readonly stdin?: Uint8Array },
): Uint8Array {
  const child = Bun.spawnSync([...command], { cwd, stdin: stdin ?? 'ignore', stderr: 'pipe' })
  if (child.exitCode === 0) return child.stdout
  throw new Error(`${command.join(' ')}: ${child.stderr.toString()}`)
}

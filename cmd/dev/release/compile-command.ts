import { readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

const root = resolve(import.meta.dir, '../../..')

/**
 * Returns the command that compiles the program. The Dockerfile is its only source, so that the image, the archives, the package for npm
 * and the tests contain the same program. @param sources folder with the sources @throws if the Dockerfile has no such command
 */
export function compileCommand(sources: string): {
  /** Options without target platform and output path. */
  readonly options: readonly string[]
  readonly entryPoints: readonly string[]
} {
  const dockerfile = readFileSync(join(sources, 'Dockerfile'), 'utf8')
  const [, command] = /^ *bun build ((?:.*\\\n)*.*)$/m.exec(dockerfile) ?? []
  if (command === undefined) throw new Error('the Dockerfile has no line that begins with "bun build"')
  const words = command.replaceAll('\\\n', ' ').trim().split(/\s+/)
  return {
    options: words.filter((word) => word.startsWith('--') && !/^--(target|outfile)=/.test(word)),
    entryPoints: words.filter((word) => !word.startsWith('--')),
  }
}

/** Runs a command in the repository's folder. @throws with its output if it fails */
export async function runTool(command: readonly string[]): Promise<void> {
  const child = Bun.spawn([...command], { cwd: root, stdin: 'ignore', stdout: 'pipe', stderr: 'pipe' })
  const [out, err] = await Promise.all([child.stdout.text(), child.stderr.text()])
  if ((await child.exited) !== 0) throw new Error(`${command.slice(0, 2).join(' ')} failed:\n${out}${err}`)
}

import { resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')

/** Exit code and output of a program. */
export interface ProgramEnd {
  readonly exitCode: number
  readonly out: string
  readonly err: string
}

/** Runs a program in the repository root with `input` as standard input, until it ends. Does not reject for a non-zero exit code. */
export async function runProgram(argv: readonly string[], input = ''): Promise<ProgramEnd> {
  const child = Bun.spawn([...argv], {
    cwd: root,
    stdin: new TextEncoder().encode(input),
    stdout: 'pipe',
    stderr: 'pipe',
  })
  const [out, err, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ])
  return { exitCode, out, err }
}

/** Runs a program and returns its standard output. @throws with its output if the exit code is not 0 */
export async function run(argv: readonly string[], input = ''): Promise<string> {
  const { exitCode, out, err } = await runProgram(argv, input)
  if (exitCode !== 0) throw new Error(`${argv.slice(0, 3).join(' ')} … ended with ${exitCode}: ${err}${out}`)
  return out
}

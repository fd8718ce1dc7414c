import { resolve } from 'node:path'

const root = resolve(import.meta.dir, '../..')

/** How a program ended, and what it said. */
export interface ProgramEnd {
  readonly exitCode: number
  readonly out: string
  readonly err: string
}

/** Runs a program in the repository's folder, with this text as its input, and waits for its end. Never rejects for its exit code. */
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

/** Runs a program that has to succeed, and gives what it printed. @throws with what it complained of when it fails */
export async function run(argv: readonly string[], input = ''): Promise<string> {
  const { exitCode, out, err } = await runProgram(argv, input)
  if (exitCode !== 0) throw new Error(`${argv.slice(0, 3).join(' ')} … ended with ${exitCode}: ${err}${out}`)
  return out
}

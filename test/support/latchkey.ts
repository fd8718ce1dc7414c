import { runLatchkey } from '#cmd/latchkey/run-latchkey.ts'

/** Exit code and output of a run of `latchkey`. */
export interface LatchkeyRun {
  readonly code: number | undefined
  readonly out: string
  readonly err: string
}

/** Runs a `latchkey` command in this process. Does not support commands that start a process of Latchkey. */
export async function latchkey(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
): Promise<LatchkeyRun> {
  const said = { out: '', err: '' }
  const code = await runLatchkey(args, {
    env,
    say: (text) => void (said.out += `${text}\n`),
    complain: (text) => void (said.err += `${text}\n`),
  })
  return { code, ...said }
}

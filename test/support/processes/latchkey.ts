import { runLatchkey } from '#cmd/latchkey/run-latchkey.ts'
import type { Terminal } from '#cmd/latchkey/terminal.ts'

/** Exit code and output of a run of `latchkey`. */
export interface LatchkeyRun {
  readonly code: number | undefined
  readonly out: string
  readonly err: string
}

/**
 * Runs a `latchkey` command in this process, without a person at the terminal unless `ask` is given. Does not support commands that start a
 * process of Latchkey.
 */
export async function latchkey(
  args: readonly string[],
  env: Readonly<Record<string, string>>,
  input: Pick<Partial<Terminal>, 'ask' | 'complain' | 'isColoured' | 'onKey' | 'say'> & {
    readonly text?: string
  } = {},
): Promise<LatchkeyRun> {
  const said = { out: '', err: '' }
  const code = await runLatchkey(args, {
    env,
    isColoured: input.isColoured ?? false,
    read: () => Promise.resolve(input.text ?? ''),
    ask: input.ask,
    onKey: input.onKey,
    say(text) {
      said.out += `${text}\n`
      input.say?.(text)
    },
    complain(text) {
      said.err += `${text}\n`
      input.complain?.(text)
    },
  })
  return { code, ...said }
}

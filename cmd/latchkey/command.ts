import type { Environment } from '#internal/config/index.ts'

/** How a command of `latchkey` ended: 0 done, 1 failed, 2 not understood. undefined: the process says so itself. */
export type ExitCode = 0 | 1 | 2 | undefined

/** Where a command is run from: what it reads beside its arguments, and whom it talks to. */
export interface Terminal {
  readonly env: Environment
  /** Prints an answer, with a line feed behind it. */
  say(text: string): void
  /** Prints what is wrong, with a line feed behind it, where it does not get among the answers. */
  complain(text: string): void
}

/** One row of the table of commands. */
export interface Command {
  /** One line for the overview. */
  readonly summary: string
  /** Runs it with the arguments after its name. Must not throw for anything that can be typed. */
  run(args: readonly string[], terminal: Terminal): Promise<ExitCode>
}

/** Whether somebody asks for help, also beside other arguments. */
export function wantsHelp(args: readonly string[]): boolean {
  return args.includes('--help') || args.includes('-h')
}

/** Says what was not understood and where to read on; gives the exit code for it. */
export function misused(terminal: Terminal, text: string, command: string): 2 {
  terminal.complain(`${text}\nSee: ${command} --help`)
  return 2
}

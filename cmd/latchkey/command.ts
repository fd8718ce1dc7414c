/** How a command of `latchkey` ended: 0 done, 1 failed, 2 not understood. undefined: the process says so itself. */
export type ExitCode = 0 | 1 | 2 | undefined

/** One row of the table of commands. */
export interface Command {
  /** One line for the overview. */
  readonly summary: string
  /** Runs it with the arguments after its name. Must not throw for anything that can be typed. */
  run(args: readonly string[]): Promise<ExitCode>
}

/** Whether somebody asks for help, also beside other arguments. */
export function wantsHelp(args: readonly string[]): boolean {
  return args.includes('--help') || args.includes('-h')
}

/** Prints to standard output, one line feed at the end. */
export function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

/** Says on standard error what was not understood and where to read on; gives the exit code for it. */
export function misused(text: string, command: string): 2 {
  process.stderr.write(`${text}\nSee: ${command} --help\n`)
  return 2
}

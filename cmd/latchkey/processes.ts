import { type Command, misused, wantsHelp } from './command.ts'

interface Process {
  readonly name: string
  readonly summary: string
  /** Runs it by being imported. The path is written out each time, so that a bundler finds it. */
  readonly load: () => Promise<unknown>
}

/** Makes the command that runs a process of `cmd`, which reads its settings from the environment and takes no arguments. */
export function processCommand({ name, summary, load }: Process): Command {
  const command = `latchkey ${name}`
  return {
    summary,
    async run(args, terminal) {
      if (wantsHelp(args)) {
        terminal.say(
          `${command}: ${summary}\n\nIt takes no arguments: its settings are environment variables, see README.md.`,
        )
        return 0
      }
      if (args.length > 0) return misused(terminal, `${command} takes no arguments`, command)
      await load()
      return undefined
    },
  }
}

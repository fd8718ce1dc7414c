import { version } from '../../package.json'
import { type ExitCode, misused, type Terminal } from './command.ts'
import { commands } from './commands.ts'

/** Runs `latchkey` with its arguments: finds the command and lets it run. Must not throw for anything that can be typed. */
export async function runLatchkey(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [name = '', ...rest] = args
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  if (command) return command.run(rest, terminal)
  if (name === '--version') {
    terminal.say(version)
    return 0
  }
  if (['--help', '-h', 'help'].includes(name)) {
    terminal.say(overview())
    return 0
  }
  return misused(terminal, name === '' ? 'A command is missing' : `There is no command "${name}"`, 'latchkey')
}

function overview(): string {
  const width = Math.max(...Object.keys(commands).map((each) => each.length))
  const lines = Object.entries(commands).map(([each, { summary }]) => `  ${each.padEnd(width)}  ${summary}`)
  return `usage: latchkey <command> [arguments]

${lines.join('\n')}

latchkey <command> --help tells more; latchkey --version tells which this is.`
}

import { version } from '../../package.json'
import { checkCommand } from './check.ts'
import { type Command, type ExitCode, misused, type Terminal, wantsHelp } from './command.ts'
import { removeFinalizersCommand } from './remove-finalizers.ts'
import { replayCommand } from './replay.ts'
import { settingsCommand } from './settings.ts'

/** All commands of `latchkey` by name, in the order of the overview. Each import path is a literal, so that the bundler finds it. */
const commands: Readonly<Record<string, Command>> = {
  api: processCommand('api', 'serves the public routes', () => import('#cmd/api/main.ts')),
  forwarder: processCommand(
    'forwarder',
    'delivers events to callbacks',
    () => import('#cmd/forwarder/main.ts'),
  ),
  operator: processCommand(
    'operator',
    'reconciles the Tenants of a cluster',
    () => import('#cmd/operator/main.ts'),
  ),
  backoffice: processCommand(
    'backoffice',
    'serves the dashboard and the internal contract, and exports the backlog as metrics',
    () => import('#cmd/backoffice/main.ts'),
  ),
  migrate: processCommand(
    'migrate',
    'brings the database’s schema up to date, then ends',
    () => import('#cmd/migrate/main.ts'),
  ),
  settings: settingsCommand,
  replay: replayCommand,
  check: checkCommand,
  'remove-finalizers': removeFinalizersCommand,
}

/** Runs `latchkey` with its arguments. Must not throw for anything that can be typed. */
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

latchkey <command> --help describes a command; latchkey --version prints the version.`
}

/** Makes the command of a process of `cmd`, which runs by being imported and takes its settings from the environment. */
function processCommand(name: string, summary: string, load: () => Promise<unknown>): Command {
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

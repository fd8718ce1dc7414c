import { version } from '../../package.json'
import { checkCommand } from './check.ts'
import { checkRollbackCommand } from './check-rollback.ts'
import { type Command, type ExitCode, misuse, type Terminal } from './command.ts'
import { removeFinalizersCommand } from './remove-finalizers.ts'
import { replayCommand } from './replay.ts'
import { settingsCommand } from './settings.ts'

/** All commands of `latchkey` by name, in the order of the overview. Each import path is a literal, because the bundler requires it. */
const commands: Readonly<Record<string, Command>> = {
  api: processOf('serves the public routes', () => import('#cmd/api/main.ts')),
  forwarder: processOf('delivers events to callbacks', () => import('#cmd/forwarder/main.ts')),
  operator: processOf('reconciles the Tenants of a cluster', () => import('#cmd/operator/main.ts')),
  backoffice: processOf(
    'serves the dashboard and the internal API, and exports the backlog as metrics',
    () => import('#cmd/backoffice/main.ts'),
  ),
  migrate: processOf(
    'brings the database’s schema up to date, then ends',
    () => import('#cmd/migrate/main.ts'),
  ),
  settings: settingsCommand,
  replay: replayCommand,
  check: checkCommand,
  'check-rollback': checkRollbackCommand,
  'remove-finalizers': removeFinalizersCommand,
}
const helps = ['--help', '-h']

/** Runs `latchkey` with its arguments. Must not throw, whatever the arguments are. */
export async function runLatchkey(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const [name = '', ...rest] = args
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined
  const isHelp = command && rest.some((each) => helps.includes(each))
  const text = isHelp ? `latchkey ${name}: ${command.summary}\n\n${command.help}` : textFor(name)
  if (text) {
    terminal.say(text)
    return 0
  }
  const missing = name === '' ? 'A command is missing' : `There is no command "${name}"`
  const ended = await (command ? command.run(rest, terminal) : misuse(missing))
  if (typeof ended !== 'object') return ended
  terminal.complain(`${ended.text}\nSee: latchkey ${command ? `${name} ` : ''}--help`)
  return 2
}

function textFor(option: string): string | undefined {
  if (option === '--version') return version
  if (option !== 'help' && !helps.includes(option)) return undefined
  const width = Math.max(...Object.keys(commands).map((each) => each.length))
  const lines = Object.entries(commands).map(([each, { summary }]) => `  ${each.padEnd(width)}  ${summary}`)
  return `usage: latchkey <command> [arguments]

${lines.join('\n')}

latchkey <command> --help describes a command; latchkey --version prints the version.`
}

/**
 * Returns the command that starts a process of the folder `cmd`. Importing the main file starts the process, which reads its settings from
 * its environment.
 */
function processOf(summary: string, load: () => Promise<unknown>): Command {
  return {
    summary,
    help: 'This command takes no arguments: its settings are environment variables, see README.md.',
    async run(args) {
      if (args.length > 0) return misuse('This command takes no arguments')
      await load()
      return undefined
    },
  }
}

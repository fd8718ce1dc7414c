import addCompletion from '@bomb.sh/tab/commander'
import { Command, CommanderError } from '@commander-js/extra-typings'
import { systemClock } from '#internal/base/index.ts'
import { version } from '../../package.json'
import { addAuditCommand } from './audit.ts'
import { Cli, type ExitCode, exitCodes, type Program } from './cli.ts'
import { addEventsCommand } from './events.ts'
import { addListenCommand } from './listen.ts'
import { addLoginCommands } from './login.ts'
import { addRecordsCommand } from './records.ts'
import { addReplayCommand } from './replay.ts'
import { addSettingsCommand } from './settings.ts'
import { addSubscriptionsCommand } from './subscriptions.ts'
import { addTenantsCommand } from './tenants.ts'
import type { Terminal } from './terminal.ts'
import { addTriggerCommand } from './trigger.ts'
import { addUsageCommands } from './usage.ts'

/** Each import path is a literal, because the bundler requires it. */
const processes = [
  ['api', 'serves the public routes', () => import('#cmd/api/main.ts')],
  ['forwarder', 'delivers events to callbacks', () => import('#cmd/forwarder/main.ts')],
  ['operator', 'reconciles the Tenants of a cluster', () => import('#cmd/operator/main.ts')],
  [
    'backoffice',
    'serves the dashboard and the internal API, and exports the backlog as metrics',
    () => import('#cmd/backoffice/main.ts'),
  ],
  [
    'run',
    'runs the whole service without Kubernetes, with the tenants of a folder',
    () => import('#cmd/run/main.ts'),
  ],
  ['migrate', 'migrates the database schema, then ends', () => import('#cmd/migrate/main.ts')],
] as const

const settingsHelp = '\nIts settings are environment variables: docs/reference/configuration.md lists them.'

/** Width of help texts. It does not depend on the terminal, because the documentation contains help texts. */
const helpColumns = 100

/** Runs a command. Never throws, whatever the arguments are. */
export async function runLatchkey(args: readonly string[], terminal: Terminal): Promise<ExitCode> {
  const cli = new Cli(terminal, systemClock)
  try {
    const program = await createProgram(cli, args)
    await program.parseAsync(args, { from: 'user' })
    return cli.exitCode
  } catch (error) {
    // Commander throws this to end the program, after it has printed a help text, the version or an error in the arguments.
    if (error instanceof CommanderError) return error.exitCode === 0 ? exitCodes.ok : exitCodes.misused
    return await cli.fail(error)
  }
}

/**
 * Returns the commands in the order of the overview. Omits those that do not call the service if the arguments begin with another command:
 * they load the modules of the stores and of Kubernetes, which takes most of the time of a start. @param args default: all commands
 */
export async function createProgram(cli: Cli, args: readonly string[] = []): Promise<Command> {
  const { terminal } = cli
  const print = (say: (text: string) => void) => (text: string) => say(text.replace(/\n$/, ''))
  const program = new Command('latchkey')
    .description(
      'Idempotency records and webhook intake: processes, tools of operators, and client of the API.',
    )
    .version(version, '--version', 'prints the version')
    .helpOption('-h, --help', 'prints the help of a command')
    .exitOverride()
    .configureOutput({
      writeOut: print(terminal.say),
      writeErr: print(terminal.complain),
      getOutHelpWidth: () => helpColumns,
      getErrHelpWidth: () => helpColumns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
  program.commandsGroup('Processes:')
  addProcessCommands(program, cli)
  program.commandsGroup('For developers, over HTTP:')
  for (const add of [
    addLoginCommands,
    addListenCommand,
    addEventsCommand,
    addSubscriptionsCommand,
    addTriggerCommand,
    addRecordsCommand,
    addUsageCommands,
  ])
    add(program, cli)
  program.commandsGroup('For operators, over HTTP:')
  for (const add of [addTenantsCommand, addSettingsCommand, addReplayCommand, addAuditCommand])
    add(program, cli)
  const isComplete = args[0] === '--version' || program.commands.some((each) => each.name() === args[0])
  if (!isComplete) {
    program.commandsGroup('For operators, beside the service:')
    const { addCheckCommand } = await import('./check.ts')
    addCheckCommand(program, cli)
    const { addRemoveFinalizersCommand } = await import('./remove-finalizers.ts')
    addRemoveFinalizersCommand(program, cli)
    const { addOperatorsCommand } = await import('./operators.ts')
    addOperatorsCommand(program, cli)
    const { addProvidersCommand } = await import('./providers.ts')
    addProvidersCommand(program, cli)
  }
  program.commandsGroup('More:').helpCommand('help [command]', 'prints the help of a command')
  // The cast is safe: the completion library has its own types of the same commands.
  addCompletion(program as unknown as Parameters<typeof addCompletion>[0], {
    completionCommandName: 'completion',
  })
  nameHelp(program)
  return program
}

/** Adds the commands that start a process by importing its module. The process reads its settings from its environment. */
function addProcessCommands(program: Program, cli: Cli): void {
  for (const [name, summary, load] of processes)
    program
      .command(name)
      .description(summary)
      .addHelpText('after', settingsHelp)
      .action(
        cli.action(async () => {
          await load()
          return undefined
        }),
      )
}

/** Adds the help command to errors in arguments. */
function nameHelp(command: Command, path = command.name()): void {
  command.showHelpAfterError(`See: ${path} --help`)
  for (const each of command.commands) nameHelp(each as Command, `${path} ${each.name()}`)
}

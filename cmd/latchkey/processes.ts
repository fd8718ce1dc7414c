import { type Cli, exitCodes, jsonOption, type Program } from './cli.ts'
import { configFor } from './connect.ts'

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
] as const

const checkRollbackHelp = `
--check-rollback fails if a tenant that is not suspended can have records or locks in Postgres, and
names such tenants. A version without durable records uses Redis for every tenant, so it would run
their saved operations again. Run the command before a rollback to such a version: Helm cannot,
since a rollback runs the hooks of the version that it restores.

It fails also while the setting records.durability is postgres: the next upgrade would move the
tenants that the older version has served since the rollback, while pods of the older version still
serve them from Redis.

It fails also while a tenant has no callback: a version that requires one cannot read its tenants.`

const settingsHelp = '\nIts settings are environment variables: docs/reference/configuration.md lists them.'

/** Adds the commands that start a process by importing its module. The process reads its settings from its environment. */
export function addProcessCommands(program: Program, cli: Cli): void {
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
  addMigrateCommand(program, cli)
}

function addMigrateCommand(program: Program, cli: Cli): void {
  program
    .command('migrate')
    .description('migrates the database schema, then ends')
    .addHelpText('after', `${settingsHelp}\n${checkRollbackHelp}`)
    .option(
      '--check-rollback',
      'changes nothing, and checks whether a version without durable records and pull-only tenants can replace this one',
    )
    .option(...jsonOption)
    .action(
      cli.action(async (options) => {
        if (options.checkRollback) {
          const config = configFor(cli, 'migrate')
          const { checkRollback } = await import('./check-rollback.ts')
          return config ? cli.answer(await checkRollback(config), options) : exitCodes.misused
        }
        await import('#cmd/migrate/main.ts')
        return undefined
      }),
    )
}

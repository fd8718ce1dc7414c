import type { Cli, Program } from './cli.ts'

/** Processes with the modules that start them. Each import path is a literal, because the bundler requires it. */
const processes = [
  ['api', 'serves the public routes', () => import('#cmd/api/main.ts')],
  ['forwarder', 'delivers events to callbacks', () => import('#cmd/forwarder/main.ts')],
  ['operator', 'reconciles the Tenants of a cluster', () => import('#cmd/operator/main.ts')],
  [
    ...([
      'backoffice',
      'serves the dashboard and the internal API, and exports the backlog as metrics',
    ] as const),
    () => import('#cmd/backoffice/main.ts'),
  ],
  [
    'run',
    'runs the whole service without Kubernetes, with the tenants of a folder',
    () => import('#cmd/run/main.ts'),
  ],
  [
    ...(['migrate', 'brings the database’s schema up to date, then ends'] as const),
    () => import('#cmd/migrate/main.ts'),
  ],
] as const

/** Adds the commands that start a process. Importing its module starts it, and it reads its settings from its environment. */
export function addProcessCommands(program: Program, cli: Cli): void {
  for (const [name, summary, load] of processes)
    program
      .command(name)
      .description(summary)
      .addHelpText('after', '\nIts settings are environment variables, see README.md.')
      .action(
        cli.action(async () => {
          await load()
          return undefined
        }),
      )
}

import { checkCommand } from './check.ts'
import type { Command } from './command.ts'
import { processCommand } from './processes.ts'
import { removeFinalizersCommand } from './remove-finalizers.ts'
import { replayCommand } from './replay.ts'
import { settingsCommand } from './settings.ts'

/** All commands of `latchkey` by name, in the order of the overview. */
export const commands: Readonly<Record<string, Command>> = {
  api: processCommand({
    name: 'api',
    summary: 'serves the public routes',
    load: () => import('#cmd/api/main.ts'),
  }),
  forwarder: processCommand({
    name: 'forwarder',
    summary: 'brings events to callbacks',
    load: () => import('#cmd/forwarder/main.ts'),
  }),
  operator: processCommand({
    name: 'operator',
    summary: 'follows the Tenants of a cluster',
    load: () => import('#cmd/operator/main.ts'),
  }),
  backoffice: processCommand({
    name: 'backoffice',
    summary: 'serves the dashboard and the internal contract, and shows in metrics how much waits',
    load: () => import('#cmd/backoffice/main.ts'),
  }),
  migrate: processCommand({
    name: 'migrate',
    summary: 'brings the database’s schema up to date, then ends',
    load: () => import('#cmd/migrate/main.ts'),
  }),
  settings: settingsCommand,
  replay: replayCommand,
  check: checkCommand,
  'remove-finalizers': removeFinalizersCommand,
}

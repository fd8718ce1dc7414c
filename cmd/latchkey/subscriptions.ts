import type { ApiClient } from './api-client.ts'
import { type Cli, exitCodes, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import type { Columns } from './tables.ts'

export function addSubscriptionsCommand(program: Program, cli: Cli): void {
  const subscriptions = program
    .command('subscriptions')
    .description('lists and deletes subscriptions, the positions of pulls and listeners in the events')
  subscriptions
    .command('list')
    .description('lists subscriptions by name')
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((options) => withApi(cli, 'public', options, (api) => list(cli, api))))
  subscriptions
    .command('delete')
    .description('deletes a subscription and its position')
    .argument('<name>', 'name of the subscription')
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((name, options) => withApi(cli, 'public', options, (api) => remove(api, name))))
}

async function list({ tables }: Cli, api: ApiClient<'public'>): Promise<Result> {
  const reply = await api.call('listSubscriptions', {})
  if (reply.kind === 'problem') return reply
  const { items } = reply.body
  const columns: Columns<(typeof items)[number]> = {
    NAME: 'name',
    EVENTS: ({ providers, types }) => [...providers, ...types].join(' ') || 'all',
    'ACKNOWLEDGED AT': 'acknowledgedAt',
    'HELD UNTIL': 'availableAt',
    'EXPIRES AT': 'expiresAt',
  }
  return { text: tables.list(items, columns, 'No subscriptions'), json: items }
}

async function remove(api: ApiClient<'public'>, name: string): Promise<Result> {
  const reply = await api.call('deleteSubscription', { path: { subscriptionName: name } })
  if (reply.kind === 'problem') return reply
  return reply.body.existed
    ? { text: `The subscription ${name} is deleted`, json: reply.body }
    : { problem: `There is no subscription ${name}`, exitCode: exitCodes.notFound }
}

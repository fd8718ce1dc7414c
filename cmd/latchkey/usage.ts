import { Option } from '@commander-js/extra-typings'
import { choicesOf, type Schemas } from './api-client.ts'
import { type Cli, jsonOption, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import { isoTime, parseProvider, parseTime } from './values.ts'

export function addUsageCommands(program: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  program
    .command('usage')
    .description('shows usage beside its limits')
    .option('--from <time>', 'start of the first hour; default: 24 h before --to', parseTime(nowMs))
    .option('--to <time>', 'end of the last hour; default: now', parseTime(nowMs))
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action(({ from, to, ...options }) =>
        withApi(cli, 'public', options, async (api): Promise<Result> => {
          const reply = await api.call('readUsage', { query: { from: isoTime(from), to: isoTime(to) } })
          return reply.kind === 'ok' ? { text: usageText(cli, reply.body), json: reply.body } : reply
        }),
      ),
    )
  program
    .command('refused')
    .description('lists the calls of providers that were refused, newest first')
    .option(
      '--provider <name>',
      'of one provider: a built-in one, such as card or stripe, or a declared one, such as slack',
      parseProvider,
    )
    .addOption(
      new Option('--cause <cause>', 'of one cause').choices(choicesOf('public', 'listRefusedCalls', 'cause')),
    )
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'public', options, (api) => {
          const { provider, cause } = options
          const read = (page: object) => api.call('listRefusedCalls', { query: { ...page, provider, cause } })
          return listPages(options, read, (calls) => refusedText(cli, calls))
        }),
      ),
    )
}

function usageText({ tables }: Cli, { limits, hours }: Schemas<'public'>['Usage']): string {
  const amounts = new Map<string, number>()
  for (const { kind, amount } of hours) amounts.set(kind, (amounts.get(kind) ?? 0) + amount)
  const totals = [...amounts].map(([kind, amount]) => ({ kind, amount }))
  return [
    tables.list(
      limits,
      { LIMIT: 'limit', USED: 'used', SOFT: 'soft', HARD: 'hard', STATE: 'state', 'RESETS AT': 'resetsAt' },
      'No limit applies',
    ),
    tables.list(totals, { KIND: 'kind', AMOUNT: 'amount' }, 'No usage in this time'),
  ].join('\n\n')
}

function refusedText({ tables }: Cli, calls: readonly Schemas<'public'>['RefusedCall'][]): string {
  return tables.list(
    calls,
    { 'REFUSED AT': 'refusedAt', PROVIDER: 'provider', CAUSE: 'cause', SOURCE: 'sourceAddress', ID: 'id' },
    'No refused calls',
  )
}

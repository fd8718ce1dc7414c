import { Option } from '@commander-js/extra-typings'
import { choicesOf, type Schemas } from './api-client.ts'
import { type Cli, jsonOption, type Program } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import { findTenantId, namespacesOption } from './tenants.ts'
import { fromOption, isoTime, parseTime } from './values.ts'

export function addAuditCommand(program: Program, cli: Cli): void {
  const nowMs = cli.clock.now()
  program
    .command('audit')
    .description('lists the audit log, newest first, with a token for the internal API')
    .option('--tenant <tenant>', 'of one tenant: id, slug, or namespace/name')
    .option(...namespacesOption)
    .option('--actor <text>', 'part of the actor')
    .addOption(
      new Option('--action <action>', 'action, or a subject with a dot').choices(
        choicesOf('internal', 'listAuditEntries', 'action'),
      ),
    )
    .option(...fromOption('done since then', nowMs))
    .option('--to <time>', 'and before', parseTime(nowMs))
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'internal', options, async (api) => {
          const { namespaces, actor, action } = options
          const found = options.tenant === undefined ? undefined : await findTenantId(api, options.tenant)
          if (found && 'problem' in found) return found
          const times = { from: isoTime(options.from), to: isoTime(options.to) }
          const filter = { namespaces, actor, action, ...times, tenantId: found?.id }
          const read = (page: object) => api.call('listAuditEntries', { query: { ...filter, ...page } })
          return listPages(options, read, (entries) => auditText(cli, entries))
        }),
      ),
    )
}

function auditText({ tables }: Cli, entries: readonly Schemas<'internal'>['AuditEntry'][]): string {
  const detail = (entry: (typeof entries)[number]) => JSON.stringify(entry.detail)
  return tables.list(
    entries,
    { 'DONE AT': 'occurredAt', ACTOR: 'actor', ACTION: 'action', TENANT: 'tenantId', DETAIL: detail },
    'No entries',
  )
}

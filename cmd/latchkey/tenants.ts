import { isTenantId } from '#internal/base/index.ts'
import type { ApiClient, Reply, Schemas } from './api-client.ts'
import { type Cli, jsonOption, type Problem, type Program, type Result } from './cli.ts'
import { profileOption, withApi } from './connect.ts'
import { afterOption, limitOption, listPages } from './pages.ts'
import { type Columns, printable } from './tables.ts'
import { explainTenant, type Pause } from './tenant-why.ts'

type Api = ApiClient<'internal'>
type TenantDetail = Schemas<'internal'>['TenantDetail']

export const namespacesOption = ['--namespaces <a,b>', 'namespaces, separated by commas'] as const
const tenantArgument = ['<tenant>', 'id, slug, or namespace/name'] as const

export function addTenantsCommand(program: Program, cli: Cli): void {
  const tenants = program
    .command('tenants')
    .description('lists and explains tenants, with a token for the internal API')
  tenants
    .command('list')
    .description('lists tenants by namespace and name')
    .option('--search <text>', 'part of a slug, of namespace/name, or of a display name')
    .option(...namespacesOption)
    .option(...limitOption)
    .option(...afterOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withApi(cli, 'internal', options, (api) => {
          const { search, namespaces } = options
          const read = (page: object) => api.call('listTenants', { query: { search, namespaces, ...page } })
          return listPages(options, read, (items) => tenantsText(cli, items))
        }),
      ),
    )
  tenants
    .command('get')
    .description('shows a tenant with its conditions, URLs and keys')
    .argument(...tenantArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((named, options) =>
        withApi(cli, 'internal', options, async (api) => {
          const reply = await readTenant(api, named)
          return reply.kind === 'ok' ? { text: detailText(cli, reply.body), json: reply.body } : reply
        }),
      ),
    )
  tenants
    .command('why')
    .description('explains in one sentence what blocks a tenant, with the command that fixes it')
    .addHelpText('after', '\nFor one event that did not arrive: latchkey events explain <id>')
    .argument(...tenantArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((named, options) => withApi(cli, 'internal', options, (api) => why(cli, api, named))))
  tenants
    .command('resume')
    .description('resumes the deliveries to a suspended callback')
    .argument(...tenantArgument)
    .option(...profileOption)
    .option(...jsonOption)
    .action(cli.action((named, options) => withApi(cli, 'internal', options, (api) => resume(api, named))))
}

async function resume(api: Api, named: string): Promise<Result> {
  const found = await findTenantId(api, named)
  if ('problem' in found) return found
  const reply = await api.call('resumeCallback', { path: { tenantId: found.id } })
  if (reply.kind === 'problem') return reply
  if (!reply.body.isNew)
    return { text: `The callback of ${named} is not suspended: nothing was changed`, json: reply.body }
  const pause = await readPause(api, found.id)
  // If the settings cannot be read, the answer still says that the callback is resumed.
  const text =
    pause === undefined || 'problem' in pause
      ? `The callback of ${named} is resumed: one event is delivered first, and the others once it has succeeded`
      : `The callback of ${named} is resumed, but deliveries still wait: they are paused for ${pause.owner === 'tenant' ? 'this tenant' : 'all tenants'} by ${pause.by ?? 'the platform team'} (setting forwarding.paused)`
  return { text: printable(text), json: reply.body }
}

/** Accepts an id, a slug, or `namespace/name`. */
export async function findTenantId(api: Api, named: string): Promise<{ readonly id: string } | Problem> {
  if (isTenantId(named)) return { id: named }
  const [namespace = '', name] = named.split('/')
  const query = name === undefined ? { slug: named } : { namespace, name }
  const reply = await api.call('findTenant', { query })
  return reply.kind === 'ok' ? { id: reply.body.id } : reply
}

async function readTenant(api: Api, named: string): Promise<Reply<TenantDetail>> {
  const found = await findTenantId(api, named)
  return 'problem' in found
    ? { ...found, kind: 'problem' }
    : api.call('readTenant', { path: { tenantId: found.id } })
}

function tenantsText({ tables }: Cli, tenants: readonly Schemas<'internal'>['TenantSummary'][]): string {
  const columns: Columns<(typeof tenants)[number]> = {
    TENANT: ({ namespace, name }) => `${namespace}/${name}`,
    SLUG: 'slug',
    STATE: ({ isReady, suspended, reason }) => (isReady ? 'ready' : suspended ? 'suspended' : reason),
    'CREATED AT': 'createdAt',
    ID: 'id',
  }
  return tables.list(tenants, columns, 'No tenants')
}

function detailText({ tables }: Cli, tenant: TenantDetail): string {
  const { spec, conditions, urls, keys, suspendedCallback } = tenant
  const fields = tables.details([
    ['tenant', `${tenant.namespace}/${tenant.name}`],
    ['id', tenant.id],
    ['slug', tenant.slug],
    ['display name', tenant.displayName],
    ['manifest', tenant.manifestFile],
    ['callback', spec.callback?.url ?? 'none: events are pulled'],
    ['suspended at', suspendedCallback?.suspendedAt],
    ['breaker until', tenant.breakerEndsAt],
    ['records in', [tenant.recordStore, tenant.earlierRecordStore].filter(Boolean).join(', before ')],
    ['created at', tenant.createdAt],
  ])
  return [
    fields,
    tables.list(
      conditions,
      { CONDITION: 'type', STATUS: 'status', REASON: 'reason', MESSAGE: 'message' },
      'No conditions',
    ),
    tables.list(urls, { PROVIDER: 'provider', URL: 'url' }, 'No providers'),
    tables.list(
      keys,
      { KEY: 'name', SCOPES: ({ scopes }) => scopes.join(' '), PREFIX: 'prefix', 'EXPIRES AT': 'expiresAt' },
      'No API keys',
    ),
  ].join('\n\n')
}

async function why(cli: Cli, api: Api, named: string): Promise<Result> {
  const reply = await readTenant(api, named)
  if (reply.kind === 'problem') return reply
  const pause = await readPause(api, reply.body.id)
  if (pause !== undefined && 'problem' in pause) return pause
  const explained = explainTenant({ tenant: reply.body, pause, nowMs: cli.clock.now() })
  const { sentence, command } = explained
  const text = command === undefined ? printable(sentence) : `${printable(sentence)}\n\n  ${command}`
  return { text, json: explained }
}

/** Reads the pause of all tenants, or else of this tenant. Callers without access to the installation's settings get the tenant's pause. */
async function readPause(api: Api, tenantId: string): Promise<Pause | Problem | undefined> {
  const name = 'forwarding.paused'
  const ofAll = await api.call('readInstallationSetting', { path: { name } })
  if (ofAll.kind === 'ok' && ofAll.body.value === true) return pauseOf('installation', ofAll.body)
  const own = await api.call('readTenantSetting', { path: { tenantId, name } })
  if (own.kind === 'problem') return own
  return own.body.value === true ? pauseOf('tenant', own.body) : undefined
}

function pauseOf(
  owner: Pause['owner'],
  { updatedBy, updatedAt }: Pick<Schemas<'internal'>['Setting'], 'updatedBy' | 'updatedAt'>,
): Pause {
  return { owner, by: updatedBy ?? null, since: updatedAt ?? null }
}

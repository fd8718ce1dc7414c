import type { SettingValue } from '#internal/settings/index.ts'
import type { ApiClient, Schemas } from './api-client.ts'
import { type Cli, jsonOption, type Program, type Result } from './cli.ts'
import { type ConnectOptions, profileOption, withApi } from './connect.ts'
import { type Columns, printable } from './tables.ts'
import { findTenantId } from './tenants.ts'
import { parseWhole } from './values.ts'

type Api = ApiClient<'internal'>
type Setting = Schemas<'internal'>['Setting']

const tenantOption = [
  '--tenant <tenant>',
  'for one tenant: id, slug, or namespace/name; default: for the whole installation',
] as const
const versionOption = [
  '--expect-version <n>',
  'writes only if this is the stored version; 0: only if the setting is not set',
  parseWhole(0, Number.MAX_SAFE_INTEGER),
] as const

export function addSettingsCommand(program: Program, cli: Cli): void {
  const settings = program
    .command('settings')
    .description(
      'reads and changes runtime settings: pauses, log sampling, defaults, with a token for the internal API',
    )
  settings
    .command('list')
    .description('shows all settings with their values, and those that tenants have of their own')
    .option(...tenantOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((options) =>
        withOwner(cli, options, (api, tenantId) =>
          tenantId === undefined ? listAll(cli, api) : listOfTenant(cli, api, tenantId),
        ),
      ),
    )
  settings
    .command('get')
    .description('shows one setting with its description')
    .argument('<name>', 'name of the setting')
    .option(...tenantOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((name, options) => withOwner(cli, options, (api, tenantId) => get(api, { name, tenantId }))),
    )
  settings
    .command('set')
    .description('sets a value, which applies in every process within 2 s')
    .argument('<name>', 'name of the setting')
    .argument('<value>', 'its new value')
    .option(...tenantOption)
    .option(...versionOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action(async (name, text, options) => {
        // Loaded here, because other commands do not need the settings module.
        const { parseSettingText } = await import('#internal/settings/index.ts')
        const body = { value: parseSettingText(text), expectedVersion: options.expectVersion }
        return withOwner(cli, options, (api, tenantId) => set(api, { name, tenantId }, body))
      }),
    )
  settings
    .command('clear')
    .description('restores the default of a setting')
    .argument('<name>', 'name of the setting')
    .option(...tenantOption)
    .option(...versionOption)
    .option(...profileOption)
    .option(...jsonOption)
    .action(
      cli.action((name, options) =>
        withOwner(cli, options, (api, tenantId) => clear(api, { name, tenantId }, options.expectVersion)),
      ),
    )
}

function withOwner(
  cli: Cli,
  options: ConnectOptions & { readonly tenant?: string | undefined },
  use: (api: Api, tenantId: string | undefined) => Promise<Result>,
) {
  return withApi(cli, 'internal', options, async (api) => {
    const { tenant } = options
    const found = tenant === undefined ? { id: undefined } : await findTenantId(api, tenant)
    return 'problem' in found ? found : use(api, found.id)
  })
}

async function listAll(cli: Cli, api: Api): Promise<Result> {
  const [all, own] = [
    await api.call('listInstallationSettings', {}),
    await api.call('listTenantsSettings', {}),
  ]
  if (all.kind === 'problem') return all
  if (own.kind === 'problem') return own
  const { items } = own.body
  const ofTenants = items.length === 0 ? [] : [cli.tables.list(items, { TENANT: 'tenantId', ...columns }, '')]
  const text = [settingsText(cli, all.body.items), ...ofTenants].join('\n\n')
  return { text, json: [...all.body.items, ...items] }
}

async function listOfTenant(cli: Cli, api: Api, tenantId: string): Promise<Result> {
  const reply = await api.call('listTenantSettings', { path: { tenantId } })
  if (reply.kind === 'problem') return reply
  const { items } = reply.body
  return { text: settingsText(cli, items), json: items.map((each) => ({ tenantId, ...each })) }
}

const columns = {
  SETTING: 'name',
  VALUE: ({ value }) => printed(value),
  VERSION: ({ version }) => (version === 0 ? 'default' : version),
  'SET AT': ({ version, updatedAt }) => (version === 0 ? '' : updatedAt),
  'SET BY': ({ version, updatedBy }) => (version === 0 ? '' : updatedBy),
} as const satisfies Columns<Setting>

function settingsText({ tables }: Cli, items: readonly Setting[]): string {
  return tables.list(items, columns, 'No settings')
}

interface Place {
  readonly name: string
  readonly tenantId: string | undefined
}

async function get(api: Api, { name: asked, tenantId }: Place): Promise<Result> {
  const reply =
    tenantId === undefined
      ? await api.call('readInstallationSetting', { path: { name: asked } })
      : await api.call('readTenantSetting', { path: { tenantId, name: asked } })
  if (reply.kind === 'problem') return reply
  const { name, value, version, updatedAt, updatedBy, expected, description } = reply.body
  const origin =
    version === 0
      ? 'the default'
      : `version ${version}, ${updatedAt} by ${updatedBy}; by default ${printed(reply.body.default)}`
  const lines = [`${name} = ${printed(value)}   (${origin})`, description, `It must be ${expected}.`]
  return { text: lines.map(printable).join('\n'), json: reply.body }
}

async function set(
  api: Api,
  { name: asked, tenantId }: Place,
  body: { readonly value: SettingValue; readonly expectedVersion: number | undefined },
): Promise<Result> {
  const reply =
    tenantId === undefined
      ? await api.call('writeInstallationSetting', { path: { name: asked }, body })
      : await api.call('writeTenantSetting', { path: { tenantId, name: asked }, body })
  if (reply.kind === 'problem') return reply
  const { name, version, isNew, previousValue } = reply.body
  const before = previousValue === null ? 'was not set' : `was ${printed(previousValue)}`
  const text = isNew
    ? `${name} = ${printed(body.value)} (${before}), version ${version}: effective within 2 s`
    : `${name} = ${printed(body.value)} already, version ${version}: nothing was written`
  return { text: printable(text), json: reply.body }
}

async function clear(
  api: Api,
  { name: asked, tenantId }: Place,
  expectedVersion: number | undefined,
): Promise<Result> {
  const query = { expectedVersion }
  const reply =
    tenantId === undefined
      ? await api.call('clearInstallationSetting', { path: { name: asked }, query })
      : await api.call('clearTenantSetting', { path: { tenantId, name: asked }, query })
  if (reply.kind === 'problem') return reply
  const { name, existed, previousValue } = reply.body
  const text = existed ? `${name} is cleared (was ${printed(previousValue)})` : `${name} was not set`
  return { text: printable(text), json: reply.body }
}

function printed(value: SettingValue | null): string {
  return value === null ? 'none' : String(value)
}

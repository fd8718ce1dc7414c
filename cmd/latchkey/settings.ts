import { systemClock, type TenantId } from '#internal/base/index.ts'
import {
  checkSettingName,
  clearSetting,
  type ListedSetting,
  listSettings,
  parseSettingText,
  readSettings,
  type SettingValue,
  type StoredSetting,
  tellSettings,
  writeSetting,
} from '#internal/settings/index.ts'
import { type Cli, jsonOption, type Program, type Result } from './cli.ts'
import { noTenant, type ToolStores, tenantOf, whoRuns, withStores } from './stores.ts'
import { columnsText } from './tables.ts'
import { byOption, parseWhole } from './values.ts'

const tenantOption = ['--tenant <id|slug>', 'for one tenant; default: for the whole installation'] as const
const versionOption = [
  '--expect-version <n>',
  'writes only if this is the stored version; 0: only if the setting is not set',
  parseWhole(0, Number.MAX_SAFE_INTEGER),
] as const

/** Adds `latchkey settings list|get|set|clear`, which reads and writes runtime settings. */
export function addSettingsCommand(program: Program, cli: Cli): void {
  const settings = program
    .command('settings')
    .description('reads and changes runtime settings: pauses, log sampling, defaults')
    .addHelpText(
      'after',
      '\nNeeds LATCHKEY_DATABASE_URL, and LATCHKEY_REDIS_URL to notify processes immediately.',
    )
  settings
    .command('list')
    .description('shows all settings with their values')
    .option(...tenantOption)
    .option(...jsonOption)
    .action(cli.action((options) => answer(cli, options, list)))
  settings
    .command('get')
    .description('shows one setting with its description')
    .argument('<name>', 'name of the setting')
    .option(...tenantOption)
    .option(...jsonOption)
    .action(cli.action((name, options) => answer(cli, options, (...about) => get(name, ...about))))
  settings
    .command('set')
    .description('sets a value, which applies in every process within 2 s')
    .argument('<name>', 'name of the setting')
    .argument('<value>', 'its new value')
    .option(...tenantOption)
    .option(...versionOption)
    .option(...byOption)
    .option(...jsonOption)
    .action(
      cli.action((name, text, options) => {
        const value = parseSettingText(text)
        return answer(cli, options, (...about) => write({ name, value, ...options }, ...about))
      }),
    )
  settings
    .command('clear')
    .description('restores the default of a setting')
    .argument('<name>', 'name of the setting')
    .option(...tenantOption)
    .option(...versionOption)
    .option(...byOption)
    .option(...jsonOption)
    .action(
      cli.action((name, options) =>
        answer(cli, options, (...about) => write({ name, value: undefined, ...options }, ...about)),
      ),
    )
}

/** Prints the result of a use case for the tenant of the options, or for the installation. */
function answer(
  cli: Cli,
  options: { readonly tenant?: string | undefined; readonly json?: true | undefined },
  use: (stores: ToolStores, tenantId: TenantId | null) => Promise<Result>,
) {
  return withStores(cli, async (stores) => {
    const tenantId = await tenantOf(stores.pool, options.tenant)
    return cli.answer(tenantId === undefined ? noTenant : await use(stores, tenantId), options)
  })
}

async function list({ pool }: ToolStores, tenantId: TenantId | null): Promise<Result> {
  const listed = await listSettings(pool, tenantId)
  const rows = listed.map(({ name, value, stored }) => [
    ...[name, printed(value), stored ? writtenBy(stored) : 'default'],
  ])
  const { settings } = await readSettings(pool)
  const ofTenants = settings
    .filter((each) => tenantId === null && each.tenantId !== null)
    .map((each) => [each.tenantId ?? '', each.name, printed(each.value), writtenBy(each)])
  const tables = [columnsText([['SETTING', 'VALUE', ''], ...rows])]
  if (ofTenants.length > 0) tables.push(columnsText([['TENANT', 'SETTING', 'VALUE', ''], ...ofTenants]))
  return { text: tables.join('\n\n'), json: listed.map((each) => settingJson(each, tenantId)) }
}

async function get(setting: string, { pool }: ToolStores, tenantId: TenantId | null): Promise<Result> {
  const named = checkSettingName({ name: setting, ofTenant: tenantId !== null })
  if (named.kind === 'refused') return named
  const found = (await listSettings(pool, tenantId, named.name)).find((each) => each.name === named.name)
  if (found === undefined) return { problem: 'There is no setting of that name' }
  const { name, value, stored, definition } = found
  const origin = stored ? `${writtenBy(stored)}; by default ${printed(definition.default)}` : 'the default'
  return {
    text: `${name} = ${printed(value)}   (${origin})\n${definition.doc}\nIt has to be ${definition.expected}.`,
    json: settingJson(found, tenantId),
  }
}

interface Change {
  readonly name: string
  readonly value: SettingValue | undefined
  readonly expectVersion?: number | undefined
  readonly by?: string | undefined
}

/** Sets a setting, or clears it if no value is given. */
async function write(
  { name: setting, value, expectVersion: expectedVersion, by = whoRuns() }: Change,
  { pool, notify }: ToolStores,
  tenantId: TenantId | null,
): Promise<Result> {
  const storing = { pool, clock: systemClock }
  const change = { name: setting, tenantId, expectedVersion, by }
  const written = await (value === undefined
    ? clearSetting(storing, change)
    : writeSetting(storing, { ...change, value }))
  if (written.kind === 'refused') return written
  if (written.kind === 'conflict') {
    const { present } = written
    const now = present ? `${printed(present.value)}, ${writtenBy(present)}` : 'it is not set'
    return { problem: `${setting} is not at that version: now ${now}. Nothing was written` }
  }
  await notify(tellSettings)
  const { name, old, version } = written
  const before = old === undefined ? 'was not set' : `was ${printed(old)}`
  const cleared = old === undefined ? `${name} was not set` : `${name} is cleared (${before})`
  const set = `${name} = ${printed(value ?? null)} (${before}), version ${version}: in force within 2 s`
  return {
    text: value === undefined ? cleared : set,
    json: { name, tenantId, old: old ?? null, new: value ?? null, version },
  }
}

function settingJson({ name, value, stored, definition }: ListedSetting, tenantId: TenantId | null): object {
  const { default: byDefault, expected, doc } = definition
  const { version = 0, updatedAtMs = null, updatedBy = null } = stored ?? {}
  return {
    ...{ name, tenantId, value, default: byDefault, version, updatedAtMs, updatedBy, expected },
    description: doc,
  }
}

function writtenBy({ version, updatedAtMs, updatedBy }: StoredSetting): string {
  return `version ${version}, ${new Date(updatedAtMs).toISOString()} by ${updatedBy}`
}

function printed(value: SettingValue | null): string {
  return value === null ? 'none' : String(value)
}

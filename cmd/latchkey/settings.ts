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
import {
  answer,
  type Command,
  columnsText,
  type Misuse,
  misuse,
  noTenant,
  parseOptions,
  type Result,
  type ToolStores,
  tenantOf,
  whoRuns,
  withStores,
} from './command.ts'

const command = 'latchkey settings'
const help = `usage: ${command} list                  shows all settings with their values
       ${command} get NAME              shows one setting with its description
       ${command} set NAME VALUE        sets a value, which applies in every process within 2 s
       ${command} clear NAME            restores its default

  --tenant ID|SLUG      for one tenant; default: for the whole installation
  --expect-version N    writes only if this is the stored version; 0: only if the setting is not set
  --by NAME             actor for the audit log; default: the user and host of this command
  --json                JSON on standard output

The command needs LATCHKEY_DATABASE_URL, and LATCHKEY_REDIS_URL to notify processes immediately.
Exit codes: 0 success, 1 failure, 2 wrong arguments.`

/** The command `latchkey settings list|get|set|clear`: reads and writes runtime settings. */
export const settingsCommand: Command = {
  summary: 'reads and changes runtime settings: pauses, log sampling, defaults',
  help,
  async run(args, terminal) {
    const asked = parseRequest(args)
    if (asked.kind === 'misused') return asked
    return withStores(terminal, async (stores) => answer(await run(asked, stores), asked.json, terminal))
  },
}

interface Request {
  readonly kind: 'request'
  readonly verb: Verb
  readonly setting: string
  readonly value: string
  readonly tenant: string | undefined
  readonly expectedVersion: number | undefined
  readonly by: string | undefined
  readonly json: boolean
}

/** Arguments that follow each subcommand. */
const verbs = {
  list: [0, 'accepts no further argument'],
  get: [1, 'requires the setting’s name'],
  set: [2, 'requires the setting’s name and its value'],
  clear: [1, 'requires the setting’s name'],
} as const
type Verb = keyof typeof verbs

function parseRequest(args: readonly string[]): Request | Misuse {
  const parsed = parseOptions(args, {
    tenant: { type: 'string' },
    'expect-version': { type: 'string' },
    by: { type: 'string' },
    json: { type: 'boolean', default: false },
  })
  if (parsed.kind === 'misused') return parsed
  const { tenant, by, json, 'expect-version': expected } = parsed.values
  const [verb = '', setting = '', value = ''] = parsed.positionals
  if (!isVerb(verb)) return misuse(`Use one of these subcommands: ${Object.keys(verbs).join(', ')}`)
  const [words, wordsText] = verbs[verb]
  if (parsed.positionals.length !== 1 + words) return misuse(`${verb} ${wordsText}`)
  if (expected !== undefined && !/^\d{1,15}$/.test(expected))
    return misuse('--expect-version has to be a whole number')
  if ((verb === 'list' || verb === 'get') && (expected !== undefined || by !== undefined))
    return misuse(`${verb} changes nothing: omit --expect-version and --by`)
  const expectedVersion = expected === undefined ? undefined : Number(expected)
  return { kind: 'request', verb, setting, value, tenant, expectedVersion, by, json }
}

function isVerb(word: string): word is Verb {
  return Object.hasOwn(verbs, word)
}

async function run(request: Request, stores: ToolStores): Promise<Result> {
  const tenantId = await tenantOf(stores.pool, request.tenant)
  if (tenantId === undefined) return noTenant
  switch (request.verb) {
    case 'list':
      return list(stores, tenantId)
    case 'get':
      return get(request, stores, tenantId)
    case 'set':
      return write(request, stores, tenantId, parseSettingText(request.value))
    case 'clear':
      return write(request, stores, tenantId, undefined)
  }
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

async function get(request: Request, { pool }: ToolStores, tenantId: TenantId | null): Promise<Result> {
  const named = checkSettingName({ name: request.setting, ofTenant: tenantId !== null })
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

/** Sets a setting, or clears it if no value is given. */
async function write(
  { setting, expectedVersion, by = whoRuns() }: Request,
  { pool, notify }: ToolStores,
  tenantId: TenantId | null,
  value: SettingValue | undefined,
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

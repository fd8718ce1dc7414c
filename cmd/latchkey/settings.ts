import { parseArgs } from 'node:util'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import {
  checkSettingName,
  clearSetting,
  type ListedSetting,
  listSettings,
  parseSettingText,
  readSettings,
  type SettingName,
  type SettingValue,
  type StoredSetting,
  tellSettings,
  writeSetting,
} from '#internal/settings/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'
import {
  answer,
  type Command,
  type ExitCode,
  fail,
  misused,
  type Terminal,
  type ToolStores,
  wantsHelp,
  whoRuns,
  withStores,
} from './command.ts'

const command = 'latchkey settings'
const help = `usage: ${command} list                  shows all settings with their values
       ${command} get NAME              shows one setting with its description
       ${command} set NAME VALUE        sets it: in force in every process within 2 s
       ${command} clear NAME            restores its default

  --tenant ID|SLUG      for one tenant; default: for the whole installation
  --expect-version N    writes only at this version; 0: only if it is not set
  --by NAME             actor for the audit log; default: the user and host of this command
  --json                JSON on standard output

It needs LATCHKEY_DATABASE_URL, and LATCHKEY_REDIS_URL to notify processes at once.
Exit codes: 0 done, 1 failed, 2 misused.`

/** Reads and writes runtime settings: `latchkey settings list|get|set|clear`. */
export const settingsCommand: Command = {
  summary: 'reads and changes runtime settings: pauses, log sampling, defaults',
  async run(args, terminal) {
    if (wantsHelp(args)) {
      terminal.say(help)
      return 0
    }
    const asked = parseRequest(args)
    if (asked.kind === 'misused') return misused(terminal, asked.text, command)
    return withStores(terminal, (stores) => run(asked, { ...stores, ...terminal }))
  },
}

type Parts = ToolStores & Terminal

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

/** Number of words after each verb. */
const verbs = { list: 0, get: 1, set: 2, clear: 1 } as const
type Verb = keyof typeof verbs

const options = {
  tenant: { type: 'string' },
  'expect-version': { type: 'string' },
  by: { type: 'string' },
  json: { type: 'boolean', default: false },
} as const

function parseRequest(
  args: readonly string[],
): Request | { readonly kind: 'misused'; readonly text: string } {
  const refuse = (text: string) => ({ kind: 'misused', text }) as const
  let parsed: ReturnType<typeof parseArgs<{ options: typeof options; allowPositionals: true }>>
  try {
    parsed = parseArgs({ args: [...args], options, allowPositionals: true })
  } catch (error) {
    return refuse(error instanceof Error ? error.message : 'The arguments cannot be read')
  }
  const { positionals, values } = parsed
  const [verb = '', setting = '', value = ''] = positionals
  if (!isVerb(verb)) return refuse(`Say what to do: ${Object.keys(verbs).join(', ')}`)
  if (positionals.length !== 1 + verbs[verb]) return refuse(`${verb} takes ${wordsOf(verb)} after it`)
  const expected = values['expect-version']
  if (expected !== undefined && !/^\d{1,15}$/.test(expected))
    return refuse('--expect-version has to be a whole number')
  if ((verb === 'list' || verb === 'get') && (expected !== undefined || values.by !== undefined))
    return refuse(`${verb} changes nothing: leave out --expect-version and --by`)
  return {
    ...{ kind: 'request', verb, setting, value, tenant: values.tenant, by: values.by, json: values.json },
    expectedVersion: expected === undefined ? undefined : Number(expected),
  }
}

function isVerb(word: string): word is Verb {
  return Object.hasOwn(verbs, word)
}

function wordsOf(verb: Verb): string {
  if (verbs[verb] === 0) return 'nothing'
  return verbs[verb] === 1 ? 'the setting’s name' : 'the setting’s name and its value'
}

async function run(request: Request, parts: Parts): Promise<ExitCode> {
  const { tenant, verb } = request
  const tenantId = tenant === undefined ? null : await findLiveTenantId(parts.pool, tenant)
  if (tenantId === undefined) return fail(request, parts, 'There is no tenant of that id or slug')
  if (verb === 'list') return list(request, parts, tenantId)
  return verb === 'get' ? get(request, parts, tenantId) : write(request, parts, tenantId)
}

async function list(request: Request, parts: Parts, tenantId: TenantId | null): Promise<ExitCode> {
  const listed = await listSettings(parts.pool, tenantId)
  const { settings } = await readSettings(parts.pool)
  const ofTenants = settings.filter((each) => tenantId === null && each.tenantId !== null)
  const all = listed.map((each) => settingJson(each, tenantId))
  return answer(request, parts, { text: listText(listed, ofTenants), json: all })
}

async function get(request: Request, parts: Parts, tenantId: TenantId | null): Promise<ExitCode> {
  const named = checkSettingName({ name: request.setting, ofTenant: tenantId !== null })
  if (named.kind === 'refused') return fail(request, parts, named.problem)
  const found = (await listSettings(parts.pool, tenantId)).find((each) => each.name === named.name)
  if (found === undefined) return fail(request, parts, 'There is no setting of that name')
  return answer(request, parts, { text: settingText(found), json: settingJson(found, tenantId) })
}

async function write(request: Request, parts: Parts, tenantId: TenantId | null): Promise<ExitCode> {
  const storing = { pool: parts.pool, clock: systemClock }
  const { expectedVersion, setting } = request
  const change = { name: setting, tenantId, expectedVersion, by: request.by ?? whoRuns() }
  const written =
    request.verb === 'clear'
      ? await clearSetting(storing, change)
      : await writeSetting(storing, { ...change, value: parseSettingText(request.value) })
  if (written.kind === 'refused') return fail(request, parts, written.problem)
  if (written.kind === 'conflict') {
    const { present } = written
    const now =
      present === undefined
        ? 'it is not set'
        : `${String(present.value)}, version ${present.version}, by ${present.updatedBy}`
    return fail(request, parts, `${setting} is not at that version: now ${now}. Nothing was written`)
  }
  await parts.notify(tellSettings)
  const value = request.verb === 'clear' ? undefined : parseSettingText(request.value)
  const { name: changed, old, version } = written
  const json = { name: changed, tenantId, old: old ?? null, new: value ?? null, version }
  return answer(request, parts, { text: writtenText({ name: changed, old, value, version }), json })
}

/** Returns a table of settings, followed by those of tenants. */
function listText(listed: readonly ListedSetting[], ofTenants: readonly StoredSetting[]): string {
  const rows = listed.map(({ name, value, stored }) => [
    name,
    printed(value),
    stored ? writtenBy(stored) : 'default',
  ])
  const tenants = ofTenants.map((each) => [
    each.tenantId ?? '',
    each.name,
    printed(each.value),
    writtenBy(each),
  ])
  const table = columns([['SETTING', 'VALUE', ''], ...rows])
  return tenants.length === 0
    ? table
    : `${table}\n\n${columns([['TENANT', 'SETTING', 'VALUE', ''], ...tenants])}`
}

function settingText({ name, value, stored, definition }: ListedSetting): string {
  const origin = stored ? `${writtenBy(stored)}; by default ${printed(definition.default)}` : 'the default'
  return `${name} = ${printed(value)}   (${origin})\n${definition.doc}\nIt has to be ${definition.expected}.`
}

function settingJson({ name, value, stored, definition }: ListedSetting, tenantId: TenantId | null): object {
  return {
    ...{ name, tenantId, value, default: definition.default },
    version: stored?.version ?? 0,
    updatedAt: stored ? new Date(stored.updatedAtMs).toISOString() : null,
    updatedBy: stored?.updatedBy ?? null,
    ...{ expected: definition.expected, doc: definition.doc },
  }
}

interface WrittenSetting {
  readonly name: SettingName
  readonly old: SettingValue | undefined
  /** undefined after a clear. */
  readonly value: SettingValue | undefined
  readonly version: number
}

function writtenText({ name, old, value, version }: WrittenSetting): string {
  const before = old === undefined ? 'was not set' : `was ${printed(old)}`
  if (value === undefined) return old === undefined ? `${name} was not set` : `${name} is cleared (${before})`
  return `${name} = ${printed(value)} (${before}), version ${version}: in force within 2 s`
}

function writtenBy({ version, updatedAtMs, updatedBy }: StoredSetting): string {
  return `version ${version}, ${new Date(updatedAtMs).toISOString()} by ${updatedBy}`
}

function printed(value: SettingValue | null): string {
  return value === null ? 'none' : String(value)
}

function columns(rows: readonly (readonly string[])[]): string {
  const widths = rows[0]?.map((_cell, at) => Math.max(...rows.map((row) => row[at]?.length ?? 0))) ?? []
  return rows
    .map((row) =>
      row
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join('  ')
        .trimEnd(),
    )
    .join('\n')
}

import { parseArgs } from 'node:util'
import { systemClock, type TenantId } from '#internal/base/index.ts'
import {
  checkSettingName,
  clearSetting,
  listSettings,
  parseSettingText,
  readSettings,
  tellSettings,
  writeSetting,
} from '#internal/settings/index.ts'
import { findLiveTenantId } from '#internal/tenants/index.ts'
import { type Command, type ExitCode, misused, type Terminal, wantsHelp } from './command.ts'
import { listText, settingJson, settingText, writtenText } from './settings-text.ts'
import { type ToolStores, withStores } from './stores.ts'
import { whoRuns } from './who-runs.ts'

const name = 'latchkey settings'
const help = `usage: ${name} list                  all settings with what holds now
       ${name} get NAME              one setting, and what it does
       ${name} set NAME VALUE        sets it: in force in every process within 2 s
       ${name} clear NAME            brings its default back

  --tenant ID|SLUG      of one tenant; left out: of the whole installation
  --expect-version N    write only if this is its version, 0 for one that is not set
  --by NAME             who does it, for the audit log; left out: the user and host of this command
  --json                JSON on standard output

It needs LATCHKEY_DATABASE_URL, and LATCHKEY_REDIS_URL if processes are to hear of it at once.
Exit codes: 0 done, 1 not done, 2 not understood.`

/** Reads and writes runtime settings: `latchkey settings list|get|set|clear`. */
export const settingsCommand: Command = {
  summary: 'reads and changes runtime settings: pauses, log sampling, defaults',
  async run(args, terminal) {
    if (wantsHelp(args)) {
      terminal.say(help)
      return 0
    }
    const asked = parseRequest(args)
    if (asked.kind === 'misused') return misused(terminal, asked.text, name)
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

/** How many words follow a verb. */
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

async function list(request: Request, { pool, say }: Parts, tenantId: TenantId | null): Promise<ExitCode> {
  const listed = await listSettings(pool, tenantId)
  const { settings } = await readSettings(pool)
  const ofTenants = settings.filter((each) => tenantId === null && each.tenantId !== null)
  const all = listed.map((each) => settingJson(each, tenantId))
  say(request.json ? jsonText(all) : listText(listed, ofTenants))
  return 0
}

async function get(request: Request, parts: Parts, tenantId: TenantId | null): Promise<ExitCode> {
  const named = checkSettingName({ name: request.setting, ofTenant: tenantId !== null })
  if (named.kind === 'refused') return fail(request, parts, named.problem)
  const found = (await listSettings(parts.pool, tenantId)).find((each) => each.name === named.name)
  if (found === undefined) return fail(request, parts, 'There is no setting of that name')
  parts.say(request.json ? jsonText(settingJson(found, tenantId)) : settingText(found))
  return 0
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
  await parts.tell(tellSettings)
  const value = request.verb === 'clear' ? undefined : parseSettingText(request.value)
  const { name: changed, old, version } = written
  const json = { name: changed, tenantId, old: old ?? null, new: value ?? null, version }
  parts.say(request.json ? jsonText(json) : writtenText({ name: changed, old, value, version }))
  return 0
}

function fail({ json }: Request, { say, complain }: Terminal, problem: string): 1 {
  if (json) say(jsonText({ problem }))
  else complain(problem)
  return 1
}

function jsonText(value: unknown): string {
  return JSON.stringify(value, null, 2)
}

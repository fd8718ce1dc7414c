import { readFileSync, statSync } from 'node:fs'
import { type ProcessName, processNames, type Setting, settings } from './settings.ts'
import { storeTlsProblems } from './store-tls.ts'
import type { ValueKind } from './value-kinds.ts'

type Settings = typeof settings
type RequiredBy<Field extends keyof Settings> = Settings[Field] extends {
  readonly requiredBy: readonly (infer Name)[]
}
  ? Name
  : never
type ValueOf<Field extends keyof Settings> =
  Settings[Field]['type'] extends ValueKind<infer Value> ? Value : never
type Given<Field extends keyof Settings, Process> = Settings[Field] extends
  | { readonly default: string }
  | { readonly defaultIn: Readonly<Record<Process & string, string>> }
  ? ValueOf<Field>
  : Process extends RequiredBy<Field>
    ? ValueOf<Field>
    : ValueOf<Field> | undefined

/** Settings of one process. Required settings and settings with a default are never undefined. The object is frozen. */
export type Config<Process extends ProcessName> = {
  readonly [Field in keyof Settings as Process extends Settings[Field]['usedBy'][number]
    ? Field
    : never]: Given<Field, Process>
}

/** Environment variables by name. */
export type Environment = Readonly<Record<string, string | undefined>>

const serviceLinkValue = /^(tcp|udp|sctp):\/\//
const serviceLinkName =
  /_SERVICE_(HOST|PORT)(_[A-Z0-9_]+)?$|_PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?$/
const serviceLinkHint = 'Kubernetes injected it for a Service: set enableServiceLinks: false on the pod'
const problemsMax = 50

/**
 * Reads the settings of one process. An empty value means that the setting is not set. Reports all problems together: invalid values,
 * missing values, and every `LATCHKEY_*` name that no process knows. Does not validate settings of other processes, so that all processes
 * can share one ConfigMap. Problems are sentences for the operator and never contain a value.
 */
export function readConfig<Process extends ProcessName>(
  env: Environment,
  options: { readonly process: Process },
):
  | { readonly kind: 'ok'; readonly config: Config<Process> }
  | { readonly kind: 'invalid'; readonly problems: readonly string[] } {
  const problems: string[] = []
  const config: Record<string, unknown> = {}
  for (const [field, setting] of settingList) {
    if (!setting.usedBy.includes(options.process)) continue
    const read = readSetting(setting, env, options.process)
    if (read.kind === 'ok') config[field] = read.value
    else problems.push(read.problem)
  }
  problems.push(...unknownNames(env), ...contradictions(env, options.process))
  // Contradictions between settings are checked only if each value is valid by itself.
  if (problems.length === 0) problems.push(...storeTlsProblems(config))
  if (problems.length > 0) return { kind: 'invalid', problems: problems.slice(0, problemsMax) }
  return { kind: 'ok', config: Object.freeze(config) as Config<Process> }
}

const settingList: readonly (readonly [string, Setting])[] = Object.entries(settings)

function readSetting(
  setting: Setting,
  env: Environment,
  process: ProcessName,
): { readonly kind: 'ok'; readonly value: unknown } | { readonly kind: 'bad'; readonly problem: string } {
  const given = givenText(setting, env)
  if ('problem' in given) return { kind: 'bad', problem: given.problem }
  const text = given.text || (setting.defaultIn?.[process] ?? setting.default)
  if (text === undefined) {
    if (!setting.requiredBy?.includes(process)) return { kind: 'ok', value: undefined }
    return { kind: 'bad', problem: `${setting.env} is missing: ${process} needs it (${setting.type.name})` }
  }
  const parsed = setting.type.parse(text)
  if (parsed.kind === 'ok') return parsed
  const hint = serviceLinkValue.test(text) && setting.env.endsWith('_PORT') ? `; ${serviceLinkHint}` : ''
  return { kind: 'bad', problem: `${setting.env}: expected ${parsed.expected}${hint}` }
}

const secretFileBytesMax = 65_536

function givenText(
  { env: name, fromFile }: Setting,
  env: Environment,
): { readonly text: string | undefined } | { readonly problem: string } {
  const text = env[name]
  const path = fromFile ? env[`${name}_FILE`] : undefined
  if (!path) return { text }
  if (text) return { problem: `${name} and ${name}_FILE are both set: unset one of them` }
  try {
    const { mode, size } = statSync(path)
    if (mode & 0o007)
      return { problem: `${name}_FILE: other users can read or write the file: run chmod o-rwx on it` }
    if (size > secretFileBytesMax)
      return { problem: `${name}_FILE: the file is larger than ${secretFileBytesMax} bytes` }
    return { text: readFileSync(path, 'utf8').trim() }
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown'
    return { problem: `${name}_FILE: the file cannot be read (${code})` }
  }
}

function unknownNames(env: Environment): string[] {
  const known = settingList.flatMap(([, { env: name, fromFile }]) => [
    name,
    ...(fromFile ? [`${name}_FILE`] : []),
  ])
  return Object.keys(env)
    .filter((name) => name.startsWith('LATCHKEY_') && !known.includes(name))
    .toSorted()
    .map((name) => {
      if (serviceLinkName.test(name)) return `${name} is not a setting; ${serviceLinkHint}`
      const close = didYouMean(name, known)
      return `${name} is not a setting${close === undefined ? ': remove it' : `: did you mean ${close}?`}`
    })
}

/** Returns problems of settings that exclude each other. The demo needs the sample tenant, which only the default folder contains. */
function contradictions(env: Environment, process: ProcessName): string[] {
  const { tenantsDir, devDemo } = settings
  if (process !== 'dev' || env[devDemo.env] !== 'true' || !env[tenantsDir.env]) return []
  return [`${devDemo.env} works only with the sample tenants: unset it, or unset ${tenantsDir.env}`]
}

/**
 * Returns a configuration for the log. Accepts the configuration of any process. Omits fields that are not a setting, so that no unknown
 * value is printed.
 */
export function printableConfig(
  config: Readonly<Record<string, unknown>>,
): Readonly<Record<string, string | number | boolean>> {
  const printable: Record<string, string | number | boolean> = {}
  for (const [field, setting] of Object.entries(settings)) {
    const value = config[field]
    if (value !== undefined) printable[setting.env] = print(setting, value)
  }
  return printable
}

function print(setting: Setting, value: unknown): string | number | boolean {
  if (setting.secret) return '[redacted]'
  // The cast is safe, because the value was returned by the parser of the same setting.
  if (setting.type.print) return setting.type.print(value as never)
  return typeof value === 'number' || typeof value === 'boolean' ? value : String(value)
}

const distanceMax = 4

/** Returns the known name with the smallest edit distance to `name`, at most `closeMax` (default and maximum 4), or undefined. Pure. */
export function didYouMean<Name extends string>(
  name: string,
  known: readonly Name[],
  closeMax = distanceMax,
): Name | undefined {
  let closest: Name | undefined
  let closestDistance = closeMax + 1
  for (const candidate of known) {
    const distance = editDistance(name, candidate)
    if (distance < closestDistance) {
      closest = candidate
      closestDistance = distance
    }
  }
  return closest
}

/** Returns the Levenshtein distance. If the lengths differ by over `distanceMax`, returns a larger number without further work. */
function editDistance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > distanceMax) return distanceMax + 1
  let row = Array.from({ length: right.length + 1 }, (_none, index) => index)
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= right.length; j += 1) {
      const same = left[i - 1] === right[j - 1]
      const replaced = (row[j - 1] ?? 0) + (same ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}

/** Returns the settings table for the documentation in Markdown, with one row per setting and without a final line feed. */
export function configTable(): string {
  const rows = Object.values(settings).map(rowOf)
  return ['| Name | Type | Default | Used by | |', '|---|---|---|---|---|', ...rows].join('\n')
}

function rowOf(setting: Setting): string {
  const secret = setting.secret ? ' Secret.' : ''
  const file = setting.fromFile ? ` \`${setting.env}_FILE\`: a file with the value instead.` : ''
  const cells = [
    `\`${setting.env}\``,
    setting.type.name,
    defaultOf(setting),
    usersOf(setting),
    setting.doc + secret + file,
  ]
  return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
}

function defaultOf(setting: Setting): string {
  const note = setting.default === undefined ? setting.defaultNote : defaultsOf(setting, setting.default)
  if (!setting.requiredBy) return note ?? ''
  return note === undefined ? 'required' : `required; ${note}`
}

function defaultsOf({ defaultIn = {} }: Setting, common: string): string {
  return [
    `\`${common}\``,
    ...Object.entries(defaultIn).map(([process, text]) => `${process}: \`${text}\``),
  ].join('; ')
}

function usersOf(setting: Setting): string {
  return setting.usedBy.length === processNames.length ? 'all' : setting.usedBy.join(', ')
}

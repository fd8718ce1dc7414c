import { Value } from '@sinclair/typebox/value'
import { didYouMean } from '#internal/config/index.ts'
import { neutralProviderName } from '#internal/tenants/index.ts'
import {
  isSettingName,
  type SettingName,
  type SettingValue,
  settingDefinitions,
  settingNames,
} from './definitions.ts'

/** A setting that somebody wants to write or read: nothing of it is checked yet. */
export interface SettingInput {
  readonly name: string
  /** Whether it is for one tenant. */
  readonly ofTenant: boolean
  /** Left out where a setting is only named. */
  readonly value?: unknown
}

/** What a check found; a problem is a sentence for whoever asked, which tells what to do next. */
export type CheckedSetting<Checked> = Checked | { readonly kind: 'refused'; readonly problem: string }

/** Checks that there is a setting of this name, and that it can be one tenant's where it is to be. Pure. */
export function checkSettingName({
  name,
  ofTenant,
}: SettingInput): CheckedSetting<{ readonly kind: 'ok'; readonly name: SettingName }> {
  if (!isSettingName(name)) {
    const meant = meantName(name)
    const hint = meant === undefined ? '`latchkey settings list` shows all' : `did you mean ${meant}?`
    return { kind: 'refused', problem: `There is no setting of that name: ${hint}` }
  }
  if (ofTenant && settingDefinitions[name].scope === 'installation')
    return { kind: 'refused', problem: `${name} holds for the whole installation: leave the tenant out` }
  return { kind: 'ok', name }
}

/** Checks a setting with its value. Pure. */
export function checkSetting(
  input: SettingInput,
): CheckedSetting<{ readonly kind: 'ok'; readonly name: SettingName; readonly value: SettingValue }> {
  const named = checkSettingName(input)
  if (named.kind === 'refused') return named
  const { name } = named
  if (!isValueOf(name, input.value))
    return { kind: 'refused', problem: `${name} has to be ${settingDefinitions[name].expected}` }
  return { kind: 'ok', name, value: input.value }
}

/** Whether a setting can have this value. Pure. */
export function isValueOf(name: SettingName, value: unknown): value is SettingValue {
  return Value.Check(settingDefinitions[name].schema, value)
}

/** What a person typed for a value: `true`, `false` and numbers are such, all else is text for `checkSetting` to judge. Pure. */
export function parseSettingText(text: string): SettingValue {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
}

/** Values as far as they are set. */
export type SetValues = Readonly<Partial<Record<SettingName, SettingValue>>>

/** Of these two the first may not be over the second, nor for a soft limit its hard one. */
const ordered: readonly (readonly [SettingName, SettingName])[] = [
  ['retention.payloadDays', 'retention.eventDays'],
  ...settingNames
    .filter((name) => name.endsWith('.soft'))
    .map((soft) => [soft, soft.replace(/soft$/, 'hard') as SettingName] as const),
]

/** Says what is wrong between the installation's settings as they would be, or undefined. Pure. */
export function conflictBetween(values: SetValues): string | undefined {
  const valueOf = (name: SettingName) => values[name] ?? settingDefinitions[name].default
  for (const [less, more] of ordered) {
    const [low, high] = [valueOf(less), valueOf(more)]
    if (typeof low === 'number' && typeof high === 'number' && low > high)
      return `${less} must not be over ${more}: they would be ${low} and ${high}`
  }
  return undefined
}

/** A vendor's name stands where a provider's neutral one has to. */
function meantName(name: string): string | undefined {
  const neutral = name.replace(/^providers\.([^.]{1,64})\./, (whole, provider: string) =>
    whole.replace(provider, neutralProviderName(provider) ?? provider),
  )
  return didYouMean(neutral, settingNames)
}

import { type TSchema, Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { TenantId } from '#internal/base/index.ts'
import { didYouMean } from '#internal/config/index.ts'
import {
  type BuiltInProviderName,
  type EmittedLimitName,
  emittedKindOf,
  emittedKindsMax,
  emittedLimitName,
  type LimitName,
  type Limits,
  limitAmountMax,
  limitNameCharsMax,
  limitNamePattern,
  limitNames,
  limitNameText,
  neutralProviderName,
  type ProviderName,
  parseProviderName,
  providerNamePattern,
  providerNames,
  type RetentionDays,
  recordDurabilities,
} from '#internal/tenants/index.ts'
import type { SettingsRead } from './store.ts'

export type FixedSettingName =
  | 'forwarding.paused'
  | `providers.${BuiltInProviderName}.paused`
  | 'log.sampling'
  | `limits.${LimitName}.${'soft' | 'hard'}`
  | 'limits.eventsPerMonth.over'
  | 'records.durability'
  | 'retention.payloadDays'
  | 'retention.eventDays'
/** Name of a setting, as a user types it. */
export type SettingName =
  | FixedSettingName
  | `limits.${EmittedLimitName}.${'soft' | 'hard'}`
  | `providers.${string}.paused`

/** Value of a setting. */
export type SettingValue = boolean | number | string

export interface SettingDefinition {
  /** `any`: the setting can apply to the installation or to one tenant. */
  readonly scope: 'any' | 'installation'
  readonly schema: TSchema
  readonly expected: string
  /** Null if the setting has no default. */
  readonly default: SettingValue | null
  readonly doc: string
}

const daysMax = 90

const flag = { schema: t.Boolean(), expected: 'true or false', default: false }

const limitTexts = {
  soft: (amount: string) => `Soft limit: ${amount} before a warning.`,
  hard: (amount: string) => `Hard limit: maximum ${amount}.`,
} as const
const amountSetting = {
  scope: 'installation',
  schema: t.Integer({ minimum: 0, maximum: limitAmountMax }),
  expected: `a whole number from 0 to ${limitAmountMax}`,
} as const
const limitDocs: Record<LimitName, string> = {
  locksPerMinute: 'locks per UTC minute',
  locksPerMonth: 'locks per UTC month',
  eventsPerMinute: 'events per UTC minute',
  eventsPerMonth: 'events per UTC month',
  recordBytes: 'bytes of all records and locks',
}
const limitDefaults: Partial<Record<FixedSettingName, number>> = {
  'limits.locksPerMinute.hard': 60_000,
  'limits.recordBytes.hard': 1024 ** 3,
}

export const settingDefinitions: Readonly<Record<FixedSettingName, SettingDefinition>> = {
  'forwarding.paused': {
    ...flag,
    scope: 'any',
    doc: 'Stops deliveries to callbacks. Events are still accepted and wait, and use no attempt. A pause of the installation applies to every tenant.',
  },
  ...(Object.fromEntries(
    providerNames.map((name) => [`providers.${name}.paused`, providerPause(name)]),
  ) as Record<`providers.${BuiltInProviderName}.paused`, SettingDefinition>),
  'log.sampling': {
    scope: 'installation',
    schema: t.Number({ minimum: 0, maximum: 1 }),
    expected: 'a number from 0 to 1',
    default: 1,
    doc: 'Share of log lines about successes that each process writes: requests with a status below 400, and deliveries that arrived. Failures are always logged, and metrics count everything.',
  },
  ...(Object.fromEntries(limitNames.flatMap(limitSettings)) as Record<
    `limits.${LimitName}.${'soft' | 'hard'}`,
    SettingDefinition
  >),
  'limits.eventsPerMonth.over': {
    scope: 'installation',
    schema: t.Union([t.Literal('accept'), t.Literal('refuse')]),
    expected: 'accept or refuse',
    default: 'accept',
    doc: 'Whether events over limits.eventsPerMonth.hard are accepted and marked, or refused. Default for tenants without a limit of their own.',
  },
  'records.durability': {
    scope: 'installation',
    schema: t.Union(recordDurabilities.map((each) => t.Literal(each))),
    expected: recordDurabilities.join(' or '),
    default: 'redis',
    doc: 'Store for records and locks of tenants that do not set spec.records.durability. redis is faster; postgres survives the loss of Redis.',
  },
  'retention.payloadDays': days(30, 'Days to keep payloads'),
  'retention.eventDays': days(90, 'Days to keep events and attempts'),
}

/** All fixed setting names, in display order. */
export const settingNames = Object.keys(settingDefinitions) as readonly FixedSettingName[]

/**
 * Returns the JSON Schema of the names that requests can use for settings of a tenant, or of the installation. A provider's name can also
 * be a vendor's or an alias.
 */
export function settingNameSchema(ofTenant: boolean) {
  const fixed = settingNames
    .filter((name) => pausedProviderOf(name) === undefined)
    .filter((name) => !ofTenant || settingDefinitions[name].scope === 'any')
    .map((name) => name.replaceAll('.', '[.]'))
  const pause = `providers[.]${providerNamePattern.slice(1, -1)}[.]paused`
  const limits = ofTenant ? [] : [`limits[.]${limitNamePattern.slice(1, -1)}[.](soft|hard)`]
  return {
    type: 'string',
    maxLength: 'limits..soft'.length + limitNameCharsMax,
    pattern: `^(${[...fixed, pause, ...limits].join('|')})$`,
  }
}

export function isSettingName(name: string): name is SettingName {
  return isFixedName(name) || emittedOf(name) !== undefined || pausedProviderOf(name) !== undefined
}

export function definitionOf(name: SettingName): SettingDefinition {
  if (isFixedName(name)) return settingDefinitions[name]
  const provider = pausedProviderOf(name)
  if (provider !== undefined) return providerPause(provider)
  const { kind = '', end = 'hard' } = emittedOf(name) ?? {}
  return {
    ...amountSetting,
    default: null,
    doc: `${limitTexts[end](`usage of ${kind} per UTC month`)} Default for tenants without an entry in spec.limits.emitted. At most ${emittedKindsMax} kinds.`,
  }
}

function isFixedName(name: string): name is FixedSettingName {
  return Object.hasOwn(settingDefinitions, name)
}

/** Returns the emitted kind (usage that other services report) that a setting limits, and which limit it sets; else undefined. */
export function emittedOf(
  name: string,
): { readonly kind: string; readonly end: 'soft' | 'hard' } | undefined {
  const [, limit = '', end] = /^limits[.](.{1,128})[.](soft|hard)$/.exec(name) ?? []
  const kind = emittedKindOf(limit)
  return kind === undefined ? undefined : { kind, end: end === 'soft' ? 'soft' : 'hard' }
}

/** Returns the provider that a setting pauses; undefined for any other setting. Does not check whether the provider exists. */
export function pausedProviderOf(name: string): ProviderName | undefined {
  const [, provider] = /^providers[.]([^.]{1,64})[.]paused$/.exec(name) ?? []
  const parsed = provider === undefined ? undefined : parseProviderName(provider)
  // Refuses a vendor's name: a stored setting contains the provider's own name.
  return parsed === provider ? parsed : undefined
}

/** Returns true if a setting pauses a provider that is not built in. */
export function isDeclaredPause(name: string): boolean {
  return !isFixedName(name) && pausedProviderOf(name) !== undefined
}

function providerPause(name: ProviderName): SettingDefinition {
  return {
    ...flag,
    scope: 'any',
    doc: `Answers calls of ${name} with 503 and Retry-After, so that the provider retries them. Applies when paused globally or for this tenant.`,
  }
}

function limitSettings(limit: LimitName): [FixedSettingName, SettingDefinition][] {
  return (['soft', 'hard'] as const).map((end) => {
    const name: FixedSettingName = `limits.${limit}.${end}`
    return [
      name,
      {
        ...amountSetting,
        default: limitDefaults[name] ?? null,
        doc: `${limitTexts[end](limitDocs[limit])} Default for tenants that do not set spec.limits.${limit}.`,
      },
    ]
  })
}

function days(standard: number, doc: string): SettingDefinition {
  return {
    scope: 'installation',
    schema: t.Integer({ minimum: 1, maximum: daysMax }),
    expected: `a whole number from 1 to ${daysMax}`,
    default: standard,
    doc: `${doc}, for tenants that do not set spec.retention. Applies to events received after the change.`,
  }
}

/** Immutable: a change creates a new object. */
export interface RuntimeSettings {
  /** Increases with every write of any setting; 0 before the first read. */
  readonly version: number
  readonly isForwardingPaused: boolean
  readonly forwardingPausedFor: ReadonlySet<TenantId>
  /** Costs two lookups in memory. */
  isProviderPaused(provider: ProviderName, tenantId: TenantId): boolean
  readonly pauses: number
  /** Fraction of log lines about successes that are written, 0 to 1. */
  readonly logShare: number
  /** Limits for tenants whose spec sets none. A limit that is absent here too has its built-in default. */
  readonly limits: Limits
  /** Retention for tenants whose spec sets none. */
  readonly retention: RetentionDays
}

/** Converts stored settings to runtime settings. Without an argument, all settings have their defaults. */
export function toRuntimeSettings({ version, settings }: SettingsRead = unread): RuntimeSettings {
  const values = new Map(settings.map(({ tenantId, name, value }) => [keyOf(name, tenantId), value]))
  const valueOf = (name: FixedSettingName) =>
    values.get(keyOf(name, null)) ?? settingDefinitions[name].default
  const providers = pausedProviders(settings)
  return {
    version,
    isForwardingPaused: valueOf('forwarding.paused') === true,
    forwardingPausedFor: new Set(
      settings.flatMap(({ name, tenantId, value }) =>
        name === 'forwarding.paused' && tenantId !== null && value === true ? [tenantId] : [],
      ),
    ),
    isProviderPaused(provider, tenantId) {
      const paused = providers.get(provider)
      return paused !== undefined && (paused.has(null) || paused.has(tenantId))
    },
    pauses: settings.filter(({ name, value }) => name.endsWith('.paused') && value === true).length,
    logShare: Number(valueOf('log.sampling')),
    limits: limitsOf(values),
    retention: {
      payloadDays: Number(valueOf('retention.payloadDays')),
      eventDays: Number(valueOf('retention.eventDays')),
    },
  }
}

/** Maps each paused provider to its tenants; null stands for all tenants. */
function pausedProviders(settings: SettingsRead['settings']) {
  const paused = new Map<ProviderName, Set<TenantId | null>>()
  for (const { name, tenantId, value } of settings) {
    const provider = pausedProviderOf(name)
    if (provider === undefined || value !== true) continue
    const owners = paused.get(provider)
    if (owners) owners.add(tenantId)
    else paused.set(provider, new Set([tenantId]))
  }
  return paused
}

const unread: SettingsRead = { version: 0, settings: [] }

function keyOf(name: SettingName, tenantId: TenantId | null): string {
  return tenantId === null ? name : `${name} ${tenantId}`
}

function limitsOf(values: ReadonlyMap<string, SettingValue>): Limits {
  const number = (name: SettingName) => {
    const value = values.get(name)
    return typeof value === 'number' ? value : undefined
  }
  const limits: Limits = {}
  for (const name of limitNames) {
    const [soft, hard] = [number(`limits.${name}.soft`), number(`limits.${name}.hard`)]
    const bounds = { ...(soft !== undefined && { soft }), ...(hard !== undefined && { hard }) }
    if (name === 'eventsPerMonth') {
      const over = values.get('limits.eventsPerMonth.over')
      if (soft === undefined && hard === undefined && over === undefined) continue
      limits[name] = { ...bounds, over: over === 'refuse' ? 'refuse' : 'accept' }
    } else if (soft !== undefined || hard !== undefined) limits[name] = bounds
  }
  const emitted = emittedLimits(values)
  return emitted.length > 0 ? { ...limits, emitted } : limits
}

function emittedLimits(values: ReadonlyMap<string, SettingValue>): NonNullable<Limits['emitted']> {
  const byKind = new Map<string, { kind: string; soft?: number; hard?: number }>()
  for (const [name, value] of values) {
    const of = emittedOf(name)
    if (of === undefined || typeof value !== 'number') continue
    byKind.set(of.kind, { ...byKind.get(of.kind), kind: of.kind, [of.end]: value })
  }
  return [...byKind.values()]
}

/** Looks up providers by name. The caller passes it, because `settings` must not import `intake`. */
export interface KnownProviderNames {
  /** Converts a name or alias of a provider to its name. Returns undefined if there is no such provider. */
  nameOf(given: string): ProviderName | undefined
  /** All names and aliases, from which a suggestion for a misspelled name is chosen. */
  all(): readonly string[]
}

interface SettingInput {
  readonly name: string
  readonly ofTenant: boolean
  /** If omitted, only the form of a provider's name is checked. */
  readonly providers?: KnownProviderNames
}

/**
 * Checks the name of a setting, and whether the setting can apply to one tenant. Replaces a vendor's name or an alias of a provider by the
 * provider's own name. With `providers`, the pause of an unknown provider gives `unknownProvider`; such a pause can still be stored, from a
 * time when the provider existed. `problem` in the result tells the caller how to correct the name.
 */
export function checkSettingName({
  name: given,
  ofTenant,
  providers,
}: SettingInput):
  | { readonly kind: 'ok'; readonly name: SettingName }
  | { readonly kind: 'unknownProvider'; readonly name: SettingName; readonly problem: string }
  | { readonly kind: 'refused'; readonly problem: string } {
  const name = withOwnProvider(given, providers)
  if (!isSettingName(name)) {
    const meant = didYouMean(name, settingNames)
    const hint = meant === undefined ? namesText(name) : `did you mean ${meant}?`
    return { kind: 'refused', problem: `There is no setting of that name: ${hint}` }
  }
  const provider = pausedProviderOf(name)
  if (providers && provider !== undefined && providers.nameOf(provider) === undefined) {
    const meant = didYouMean(provider, providers.all())
    const hint =
      meant === undefined
        ? '`latchkey providers list` shows those that are shipped, `kubectl get providers` your own'
        : `did you mean providers.${providers.nameOf(meant) ?? meant}.paused?`
    const problem = `There is no setting of that name, because no provider has the name ${provider}: ${hint}`
    return { kind: 'unknownProvider', name, problem }
  }
  if (ofTenant && definitionOf(name).scope === 'installation')
    return { kind: 'refused', problem: `${name} applies to the whole installation only: omit the tenant` }
  return { kind: 'ok', name }
}

function namesText(name: string): string {
  return name.startsWith('limits.')
    ? `a limit is limits.<name>.soft or limits.<name>.hard with the name ${limitNameText}`
    : '`latchkey settings list` shows all'
}

export function checkSetting(input: SettingInput & { readonly value: unknown }) {
  const named = checkSettingName(input)
  if (named.kind !== 'ok') return { ...named, kind: 'refused' as const }
  const { value } = input
  if (isValueOf(named.name, value)) return { ...named, value }
  const problem = `"${named.name}" must be ${definitionOf(named.name).expected}`
  return { kind: 'refused' as const, problem }
}

export function isValueOf(name: SettingName, value: unknown): value is SettingValue {
  return Value.Check(definitionOf(name).schema, value)
}

/** Parses a value that a user typed: `true`, `false`, a number, or any other text. Does not check whether the setting accepts the value. */
export function parseSettingText(text: string): SettingValue {
  if (text === 'true' || text === 'false') return text === 'true'
  return /^-?\d+(\.\d+)?$/.test(text) ? Number(text) : text
}

/** Pairs of settings whose first value must not exceed the second, such as a soft and a hard limit. */
const ordered: readonly (readonly [SettingName, SettingName])[] = [
  ['retention.payloadDays', 'retention.eventDays'],
  ...settingNames.filter((name) => name.endsWith('.soft')).map(pairOf),
]

function pairOf(soft: SettingName) {
  return [soft, soft.replace(/soft$/, 'hard') as SettingName] as const
}

/** Returns a message about two settings of the installation that contradict each other, or undefined. */
export function conflictBetween(
  values: Readonly<Partial<Record<SettingName, SettingValue | undefined>>>,
): string | undefined {
  const valueOf = (name: SettingName) => values[name] ?? definitionOf(name).default
  const emitted = Object.keys(values).flatMap((name) => {
    const of = emittedOf(name)
    return of === undefined ? [] : [pairOf(`limits.${emittedLimitName(of.kind)}.soft`)]
  })
  for (const [less, more] of [...ordered, ...emitted]) {
    const [low, high] = [valueOf(less), valueOf(more)]
    if (typeof low === 'number' && typeof high === 'number' && low > high)
      return `${less} must not exceed ${more}: they would be ${low} and ${high}`
  }
  return undefined
}

function withOwnProvider(name: string, providers: KnownProviderNames | undefined): string {
  return name.replace(
    /^providers\.([^.]{1,64})\./,
    (_whole, given: string) =>
      `providers.${providers?.nameOf(given) ?? neutralProviderName(given) ?? given}.`,
  )
}

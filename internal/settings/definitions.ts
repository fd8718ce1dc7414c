import { type TSchema, Type as t } from '@sinclair/typebox'
import {
  type LimitName,
  limitAmountMax,
  limitNames,
  type ProviderName,
  providerNames,
} from '#internal/tenants/index.ts'

/** The name of a setting, as people type it. */
export type SettingName =
  | 'forwarding.paused'
  | `providers.${ProviderName}.paused`
  | 'log.sampling'
  | `limits.${LimitName}.${'soft' | 'hard'}`
  | 'limits.eventsPerMonth.over'
  | 'retention.payloadDays'
  | 'retention.eventDays'

/** What a setting can be set to. */
export type SettingValue = boolean | number | string

/** Everything that is known about a setting but its name. */
export interface SettingDefinition {
  /** `any`: for the installation, and for one tenant beside it. */
  readonly scope: 'any' | 'installation'
  readonly schema: TSchema
  /** What a value has to be, in words. */
  readonly expected: string
  /** What holds while it is not set; null: nothing does. */
  readonly default: SettingValue | null
  readonly doc: string
}

const daysMax = 90

const flag = { schema: t.Boolean(), expected: 'true or false', default: false }

const limitDocs: Record<LimitName, string> = {
  locksPerMinute: 'Locks in a UTC minute',
  locksPerMonth: 'Locks in a UTC month',
  eventsPerMinute: 'Events in a UTC minute',
  eventsPerMonth: 'Events in a UTC month',
  recordBytes: 'Bytes of all records and locks',
}
const limitDefaults: Partial<Record<SettingName, number>> = {
  'limits.locksPerMinute.hard': 60_000,
  'limits.recordBytes.hard': 1024 ** 3,
}

/** All settings by name, in the order in which they are listed. */
export const settingDefinitions: Readonly<Record<SettingName, SettingDefinition>> = {
  'forwarding.paused': {
    ...flag,
    scope: 'any',
    doc: 'Nothing is sent to callbacks; events go on to be accepted and wait, and no attempt is spent. Paused for all, or for this tenant: either is enough.',
  },
  ...(Object.fromEntries(
    providerNames.map((name) => [`providers.${name}.paused`, providerPause(name)]),
  ) as Record<`providers.${ProviderName}.paused`, SettingDefinition>),
  'log.sampling': {
    scope: 'installation',
    schema: t.Number({ minimum: 0, maximum: 1 }),
    expected: 'a number from 0 to 1',
    default: 1,
    doc: 'Share of log lines about what went well that each process writes: requests under 400, deliveries that arrived. All else is always logged, and metrics count everything.',
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
    doc: 'Whether events over limits.eventsPerMonth.hard are accepted and marked, or refused; for tenants without that limit of their own.',
  },
  'retention.payloadDays': days(30, 'Days that payloads are kept'),
  'retention.eventDays': days(90, 'Days that events and attempts are kept'),
}

/** All names, in the order in which settings are listed. */
export const settingNames = Object.keys(settingDefinitions) as readonly SettingName[]

/** Whether this is the name of a setting. */
export function isSettingName(name: string): name is SettingName {
  return Object.hasOwn(settingDefinitions, name)
}

function providerPause(name: ProviderName): SettingDefinition {
  return {
    ...flag,
    scope: 'any',
    doc: `Calls of ${name} are answered 503 with Retry-After, so that the provider sends them again. Paused for all, or for this tenant: either is enough.`,
  }
}

function limitSettings(limit: LimitName): [SettingName, SettingDefinition][] {
  const ends = { soft: 'from which on a tenant is warned of', hard: 'that a tenant may reach' } as const
  return (['soft', 'hard'] as const).map((end) => {
    const name: SettingName = `limits.${limit}.${end}`
    return [
      name,
      {
        scope: 'installation',
        schema: t.Integer({ minimum: 0, maximum: limitAmountMax }),
        expected: `a whole number from 0 to ${limitAmountMax}`,
        default: limitDefaults[name] ?? null,
        doc: `${limitDocs[limit]} ${ends[end]}, where its spec.limits.${limit} leaves it open.`,
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
    doc: `${doc}, for tenants whose spec.retention leaves it open. Holds for what is received from then on.`,
  }
}

import type { TenantId } from '#internal/base/index.ts'
import {
  type Limits,
  limitNames,
  type ProviderName,
  providerNames,
  type RetentionDays,
} from '#internal/tenants/index.ts'
import { type SettingName, type SettingValue, settingDefinitions } from './definitions.ts'
import type { SettingsRead } from './store.ts'

/** What is in force in this process. Never changes: a change brings another one. */
export interface RuntimeSettings {
  /** Grows with every write of any setting; 0 while none was read. */
  readonly version: number
  /** Nothing is sent to anybody's callback. */
  readonly isForwardingPaused: boolean
  /** Nothing is sent to the callbacks of these. */
  readonly forwardingPausedFor: ReadonlySet<TenantId>
  /** Whether calls of this provider for this tenant are put off. Costs two look-ups in memory. */
  isProviderPaused(provider: ProviderName, tenantId: TenantId): boolean
  /** Settings that pause something, for the installation and for tenants. */
  readonly pauses: number
  /** Share of log lines about what went well that are written, 0 to 1. */
  readonly logShare: number
  /** Limits that were set, for tenants that leave them open; an absent one is built in. */
  readonly limits: Limits
  /** For tenants that leave them open. */
  readonly retention: RetentionDays
}

/** Makes what is in force of what is set. Pure; without an argument everything has its default. */
export function toRuntimeSettings({ version, settings }: SettingsRead = unread): RuntimeSettings {
  const values = new Map(settings.map(({ tenantId, name, value }) => [keyOf(name, tenantId), value]))
  const valueOf = (name: SettingName) => values.get(keyOf(name, null)) ?? settingDefinitions[name].default
  const pausedFor = (name: SettingName) =>
    new Set(
      settings.flatMap((each) =>
        each.name === name && each.tenantId !== null && each.value === true ? [each.tenantId] : [],
      ),
    )
  const providers = new Map(
    providerNames.map((name) => {
      const setting: SettingName = `providers.${name}.paused`
      return [name, { all: valueOf(setting) === true, tenants: pausedFor(setting) }]
    }),
  )
  return {
    version,
    isForwardingPaused: valueOf('forwarding.paused') === true,
    forwardingPausedFor: pausedFor('forwarding.paused'),
    isProviderPaused(provider, tenantId) {
      const paused = providers.get(provider)
      return paused !== undefined && (paused.all || paused.tenants.has(tenantId))
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
  return limits
}

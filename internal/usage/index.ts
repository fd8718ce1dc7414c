import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

export type { UsageEmission, UsageRecorded } from './emissions.ts'
export { forgetEmissions, recordUsage } from './emissions.ts'
export type { CountedEvent, EventMeterOptions } from './event-meter.ts'
export { EventMeter } from './event-meter.ts'
export type { EventVerdict } from './event-verdict.ts'
export { forgetMeters } from './forget.ts'
export { forgetHours } from './forget-hours.ts'
export type { EffectiveLimits, EventLimitName, LockLimitName, LockLimits } from './limits.ts'
export { limitHeaders } from './limits.ts'
export type { LimitedTenant, LimitsInForceOptions, TenantLimits } from './limits-in-force.ts'
export { LimitsInForce } from './limits-in-force.ts'
export type { MeterOptions } from './meter.ts'
export { Meter } from './meter.ts'
export { meterKeys } from './meter-keys.ts'
export type { OverrideClearing, OverrideParts, OverrideSetting, OverrideWritten } from './overrides.ts'
export { clearLimitOverride, limitsChannel, setLimitOverride, tellLimits } from './overrides.ts'
export type { LimitUsage, ReadUsageParts, UsageReport, UsageSpan } from './read-usage.ts'
export { readUsage } from './read-usage.ts'
export type { SoftCrossing } from './soft-limits.ts'
/** Lua for scripts that count: the server's clock, and the meters. */
export { clockLua, meterLua }

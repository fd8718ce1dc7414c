import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

export { forgetEmissions, recordUsage, type UsageEmission, type UsageRecorded } from './emissions.ts'
export { type CountedEvent, EventMeter, type EventMeterOptions, type EventVerdict } from './event-meter.ts'
export {
  type EffectiveLimits,
  type EventLimitName,
  type LimitedTenant,
  LimitsInForce,
  type LimitsInForceOptions,
  type LockLimitName,
  type LockLimits,
  limitHeaders,
  type TenantLimits,
} from './limits.ts'
export { forgetMeters, Meter, type MeterOptions, type SoftCrossing } from './meter.ts'
export {
  clearLimitOverride,
  limitsChannel,
  type OverrideClearing,
  type OverrideParts,
  type OverrideSetting,
  type OverrideWritten,
  setLimitOverride,
  tellLimits,
} from './overrides.ts'
export {
  type LatencyStats,
  type RankRequest,
  rankTenants,
  readStats,
  type Stats,
  type StatsPoint,
  type StatsQuery,
  type StatsSums,
  type StatsTenants,
  statsStepMs,
  type TenantStats,
} from './read-stats.ts'
export {
  type LimitUsage,
  type ReadUsageParts,
  readUsage,
  type UsageReport,
  type UsageSpan,
} from './read-usage.ts'
export { meterKeys } from './reading.ts'
export { forgetStats, StatsRecorder, type StatsRecorderOptions, statsTables } from './stats-recorder.ts'
export {
  type QueueSight,
  type StatName,
  StatsTally,
  statNames,
  type TallyBounds,
} from './stats-tally.ts'
export { forgetHours, purgeUsageSteps } from './store.ts'
/** Lua for scripts that count: the server's clock, and the meters. */
export { clockLua, meterLua }

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
  type FigurePoint,
  type FigureSums,
  type Figures,
  type FiguresRequest,
  type FigureTenants,
  figureStepMs,
  type LatencyFigures,
  type RankRequest,
  rankTenants,
  readFigures,
  type TenantFigures,
} from './read-stats.ts'
export {
  type LimitUsage,
  type ReadUsageParts,
  readUsage,
  type UsageReport,
  type UsageSpan,
} from './read-usage.ts'
export { meterKeys } from './reading.ts'
export { FigureRecorder, type FigureRecorderOptions, figureTables, forgetFigures } from './stats-recorder.ts'
export {
  type FigureName,
  FigureTally,
  figureNames,
  type QueueSight,
  type TallyBounds,
} from './stats-tally.ts'
export { forgetHours } from './store.ts'
/** Lua for scripts that count: the server's clock, and the meters. */
export { clockLua, meterLua }

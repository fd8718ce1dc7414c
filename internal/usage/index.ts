import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

export { forgetEmissions, recordUsage, type UsageEmission, type UsageRecorded } from './emissions.ts'
export { type CountedEvent, EventMeter, type EventMeterOptions } from './event-meter.ts'
export type { EventVerdict } from './event-verdict.ts'
export { forgetMeters } from './forget.ts'
export { forgetHours } from './forget-hours.ts'
export { figureTables, forgetFigures } from './forget-stats.ts'
export {
  type EffectiveLimits,
  type EventLimitName,
  type LockLimitName,
  type LockLimits,
  limitHeaders,
} from './limits.ts'
export {
  type LimitedTenant,
  LimitsInForce,
  type LimitsInForceOptions,
  type TenantLimits,
} from './limits-in-force.ts'
export { Meter, type MeterOptions } from './meter.ts'
export { meterKeys } from './meter-keys.ts'
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
export { type RankRequest, rankTenants, type TenantFigures } from './rank-tenants.ts'
export {
  type FigurePoint,
  type FigureSums,
  type Figures,
  type FiguresRequest,
  type FigureTenants,
  figureStepMs,
  type LatencyFigures,
  readFigures,
} from './read-stats.ts'
export {
  type LimitUsage,
  type ReadUsageParts,
  readUsage,
  type UsageReport,
  type UsageSpan,
} from './read-usage.ts'
export type { SoftCrossing } from './soft-limits.ts'
export { type FigureName, figureNames, type QueueSight } from './stat.ts'
export { FigureRecorder, type FigureRecorderOptions } from './stats-recorder.ts'
export { FigureTally, type TallyBounds } from './stats-tally.ts'
/** Lua for scripts that count: the server's clock, and the meters. */
export { clockLua, meterLua }

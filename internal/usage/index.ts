import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

export { decisionReasons, usageDecisions } from './decision.ts'
export {
  moveRecordHours,
  readDurableMeters,
  recordEntryId,
  recordEntryIds,
  returnExpiredBytes,
} from './durable-meters.ts'
export { forgetEmissions, recordUsage, type UsageEmission, usageIdCharsMax } from './emissions.ts'
export type { EventVerdict } from './event-meter.ts'
export {
  checkGuardrail,
  commitGuardrail,
  type GuardrailAnswer,
  type GuardrailOutcome,
} from './guardrails.ts'
export {
  type LimitState,
  LimitsInForce,
  type LockLimitName,
  type LockLimits,
  limitHeaders,
  limitStates,
} from './limits.ts'
export { forgetMeters, Meter, type SoftCrossing } from './meter.ts'
export {
  clearLimitOverride,
  findOverrides,
  limitsChannel,
  overrideDaysMax,
  overrideReasonCharsMax,
  setLimitOverride,
  tellLimits,
} from './overrides.ts'
export {
  rankTenants,
  readStats,
  type Stats,
  type StatsPoint,
  type StatsTenants,
  statsStepMs,
  type TenantStats,
} from './read-stats.ts'
export { type LimitsReport, type LimitUsage, readLimits, readUsage, type UsageReport } from './read-usage.ts'
export { meterKeys } from './reading.ts'
export { forgetStats, StatsRecorder, statsTables } from './stats-recorder.ts'
export { type StatName, StatsTally } from './stats-tally.ts'
export { forgetHours, purgeUsageSteps } from './store.ts'
export { UsageTurns } from './turns.ts'
/** Lua for scripts that count usage: the server's clock, and the meters. */
export { clockLua, meterLua }

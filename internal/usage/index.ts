import clockLua from './scripts/clock.lua' with { type: 'text' }
import meterLua from './scripts/meter.lua' with { type: 'text' }

export { forgetMeters } from './forget.ts'
export type { LockLimitName, LockLimits } from './limits.ts'
export { defaultLockLimits, limitHeaders, resolveLockLimits } from './limits.ts'
export type { MeterOptions } from './meter.ts'
export { Meter, meterKeys } from './meter.ts'
/** Lua for scripts that count: the server's clock, and the meters. */
export { clockLua, meterLua }

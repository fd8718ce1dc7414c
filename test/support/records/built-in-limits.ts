import { systemClock } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type LimitedTenant, LimitsInForce, type LockLimits } from '#internal/usage/limits.ts'

// The pool is not used before the limits are first loaded.
const limits = new LimitsInForce({ pool: {} as Pool, clock: systemClock })

/** Returns a tenant's lock limits without settings and overrides. */
export const builtInLimits = (tenant: LimitedTenant): LockLimits => limits.of(tenant).locks

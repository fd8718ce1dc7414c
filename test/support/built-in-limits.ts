import { systemClock } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type LimitedTenant, LimitsInForce, type LockLimits } from '#internal/usage/limits.ts'

// Nothing is read from the pool before the first look.
const limits = new LimitsInForce({ pool: {} as Pool, clock: systemClock })

/** Returns a tenant's lock limits without settings and overrides. */
export const builtInLimits = (tenant: LimitedTenant): LockLimits => limits.of(tenant).locks

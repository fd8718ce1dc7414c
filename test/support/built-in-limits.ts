import type { Limits } from '#internal/tenants/index.ts'
// Tests may import any file of a room.
import { effectiveLimits, hardLockLimits, type LockLimits } from '#internal/usage/limits.ts'

/** The limits of a tenant's locks where nothing was set beside its own spec. */
export function builtInLimits({ limits: spec }: { readonly limits: Limits }): LockLimits {
  return hardLockLimits(effectiveLimits({ overrides: [], spec, defaults: {}, nowMs: 0 }))
}

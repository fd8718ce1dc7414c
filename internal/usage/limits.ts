/** The hard limits that the acquire script checks; `null` is none. */
export interface LockLimits {
  readonly locksPerMinute: number | null
  readonly locksPerMonth: number | null
  /** Bytes of all saved records: scope, key, headers and body. */
  readonly recordBytes: number | null
}

/** The name of a limit that an acquisition can meet, as in a Tenant's `spec.limits`. */
export type LockLimitName = keyof LockLimits

/** What a Tenant's `spec.limits` says of one limit. */
interface LimitSetting {
  readonly hard?: number | undefined
}

/** What holds for a tenant whose `spec.limits` is silent. */
export const defaultLockLimits: LockLimits = {
  locksPerMinute: 60_000,
  locksPerMonth: null,
  recordBytes: 1024 ** 3,
}

/** The limits in force: the tenant's own where it has one, the platform's default elsewhere. */
export function resolveLockLimits(
  own: { readonly [Name in LockLimitName]?: LimitSetting | undefined },
): LockLimits {
  return {
    locksPerMinute: own.locksPerMinute?.hard ?? defaultLockLimits.locksPerMinute,
    locksPerMonth: own.locksPerMonth?.hard ?? defaultLockLimits.locksPerMonth,
    recordBytes: own.recordBytes?.hard ?? defaultLockLimits.recordBytes,
  }
}

/** A limit's name and window as they stand in the `RateLimit` fields. */
const policies: Record<LockLimitName, { readonly name: string; readonly window: string }> = {
  locksPerMinute: { name: 'locks-per-minute', window: ';w=60' },
  // A month's length differs, and recordBytes has no window: both leave `w` out, as the draft allows.
  locksPerMonth: { name: 'locks-per-month', window: '' },
  recordBytes: { name: 'record-bytes', window: ';qu="content-bytes"' },
}

/**
 * The header fields of an answer that a limit refused, as structured fields of
 * https://datatracker.ietf.org/doc/html/draft-ietf-httpapi-ratelimit-headers-10 (read 2026-11), and `Retry-After` in
 * seconds.
 */
export function limitHeaders(
  limit: LockLimitName,
  quota: number,
  retryAfterMs: number,
): Record<string, string> {
  const { name, window } = policies[limit]
  const seconds = Math.max(1, Math.ceil(retryAfterMs / 1000))
  return {
    'Retry-After': String(seconds),
    RateLimit: `"${name}";r=0;t=${seconds}`,
    'RateLimit-Policy': `"${name}";q=${quota}${window}`,
  }
}

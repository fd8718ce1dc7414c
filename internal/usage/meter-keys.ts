import type { TenantId } from '#internal/base/index.ts'

/** The keys of a tenant's meters. They share its hash tag with all of its records. */
export interface MeterKeys {
  /** Locks and bytes: a packed string. */
  readonly meta: string
  /** The hash beside it. */
  readonly side: string
  /** Events: a hash. */
  readonly events: string
}

/** Names the keys of a tenant's meters. */
export function meterKeys(tenantId: TenantId): MeterKeys {
  return { meta: `{${tenantId}}:meta`, side: `{${tenantId}}:side`, events: `{${tenantId}}:events` }
}

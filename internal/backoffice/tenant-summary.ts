import type { TenantRow } from './tenant-rows.ts'
import type { TenantSummary } from './tenants.ts'

/** A tenant's row as lists show it. Pure. */
export function summaryOf({ ready, ...row }: TenantRow): TenantSummary {
  const { id, namespace, name, slug, displayName, isSuspended, createdAtMs } = row
  const isReady = ready?.status === 'True'
  const reason = isReady ? null : (ready?.reason ?? 'Unknown')
  return { id, namespace, name, slug, displayName, isSuspended, createdAtMs, isReady, reason }
}

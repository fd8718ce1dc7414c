import { createHash } from 'node:crypto'
import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'

/** The first id of the tenant whose resource has this uid: always the same, and another uid gives another id. */
export function tenantIdOfUid(uid: string): TenantId {
  return tenantIdFromBytes(createHash('sha256').update(uid, 'utf8').digest())
}

import type { TenantId } from '#internal/base/index.ts'

/**
 * Whose rows a list is to have. A tenant that may not be seen is not found. Without one: all that the actor sees, which for somebody
 * who does not see the whole cluster are those of the named namespaces, and for a tenant's key that tenant.
 */
export interface Whose {
  readonly tenantId?: TenantId | undefined
  /** At most 50; only for whoever does not see all. */
  readonly namespaces?: readonly string[] | undefined
}

import type { Action } from '#internal/access/index.ts'
import type { Outcome } from '#internal/backoffice/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { PageContext } from '../page.ts'

/** What may be done, by action. */
export type Rights = Readonly<Record<Action, boolean>>

/** What the actor may do with a tenant. */
export function readRights({ backoffice, actor }: PageContext, tenant: TenantId): Promise<Outcome<Rights>> {
  return backoffice.tenants.permissions(actor, tenant)
}

/**
 * Whether to offer a replay of many events: of the tenant that is looked at, or where none is, of all or of one that is yet to be
 * named. While nobody knows, it is not.
 */
export async function mayReplay({ backoffice, actor, tenant }: PageContext): Promise<boolean> {
  const rights = await backoffice.tenants.permissions(actor, tenant?.id ?? 'all')
  if (rights.kind !== 'ok') return false
  return rights.value.replay || (tenant === undefined && !rights.value.see)
}

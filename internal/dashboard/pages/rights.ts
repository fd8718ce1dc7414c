import type { Action } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { PageContext, PageResult } from '../page.ts'

/** What may be done, by action. */
export type Rights = Readonly<Record<Action, boolean>>

type Tenant = NonNullable<PageContext['tenant']>
type Proceed<Of extends readonly unknown[]> = (...of: Of) => Promise<PageResult> | PageResult

/** Goes on where the actor may do this with the tenant that is looked at: nobody is asked about what they may not do. */
export async function withRight(
  context: PageContext,
  action: Action,
  proceed: Proceed<[Tenant]>,
): Promise<PageResult> {
  const { tenant } = context
  if (tenant === undefined) return { kind: 'needsTenant' }
  return withRightTo(context, tenant.id, action, () => proceed(tenant))
}

/** The same for the tenant of what is looked at, or for all. */
export async function withRightTo(
  { backoffice, actor }: PageContext,
  tenantId: TenantId | 'all',
  action: Action,
  proceed: Proceed<[]>,
): Promise<PageResult> {
  const rights = await backoffice.tenants.permissions(actor, tenantId)
  if (rights.kind !== 'ok') return rights
  return rights.value[action] ? proceed() : { kind: 'forbidden' }
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

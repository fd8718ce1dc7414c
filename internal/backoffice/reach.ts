import {
  type Action,
  type Actor,
  namespacesMax,
  type Permission,
  type TenantPlace,
} from '#internal/access/index.ts'
import type { EventId, TenantId } from '#internal/base/index.ts'
import { type EventSummary, listEvents } from '#internal/events/index.ts'
import { type DirectoryTenant, listTenantHeads } from '#internal/tenants/index.ts'
import { forbidden, invalid, notFound, type Outcome, ok, unavailable } from './outcome.ts'
import type { SharedParts } from './parts.ts'

/**
 * Tenants of a list: one tenant, the tenants of some namespaces, or all tenants that the actor sees. A user without rights on the whole
 * cluster must name a tenant or namespaces; a tenant's key sees only its own tenant.
 */
export interface TenantSelection {
  readonly tenantId?: TenantId | undefined
  /** At most 50 namespaces. */
  readonly namespaces?: readonly string[] | undefined
}

export type ListScope =
  | { readonly kind: 'all' }
  | { readonly kind: 'tenants'; readonly tenantIds: readonly TenantId[] }

export const listTenantsMax = 50

type ReachParts = Pick<SharedParts, 'access' | 'directory' | 'pool'>

/** Id of a tenant, or the owner of an object. `named`: id of the object. `tenantId`: owner; undefined if the object was not found. */
export type MeantTenant = TenantId | { readonly tenantId: TenantId | undefined; readonly named: string }

/** Replaces a missing tenant in rights checks, which need a namespace. No real namespace can have the name `-`. */
const nowhere: TenantPlace = { id: '' as TenantId, namespace: '-', name: '-' }

/**
 * Checks that the actor sees the tenant and has the right. Runs the same checks for a missing tenant as for an invisible one, so that the
 * caller cannot distinguish them by timing or by failures.
 */
export async function reachTenant(
  { access, directory }: Pick<ReachParts, 'access' | 'directory'>,
  actor: Actor,
  meant: MeantTenant,
  action: Action = 'see',
): Promise<Outcome<DirectoryTenant>> {
  if (!directory.hasSnapshot()) return unavailable
  const { tenantId, named } = typeof meant === 'string' ? { tenantId: meant, named: meant } : meant
  const tenant = tenantId === undefined ? undefined : directory.findTenantById(tenantId)
  const everywhere = await access.may(actor, 'see', 'all')
  if (everywhere.kind === 'unavailable') return everywhere
  if (everywhere.kind === 'refused') {
    const seen = await access.may(actor, 'see', tenant ?? nowhere, named)
    if (seen.kind !== 'allowed') return seen.kind === 'refused' ? notFound : seen
  }
  if (tenant === undefined) return notFound
  if (action === 'see') return ok(tenant)
  const permission = await access.may(actor, action, tenant)
  return permission.kind === 'allowed' ? ok(tenant) : refusalOf(permission)
}

/** Requires that the actor sees all tenants and has the right on all of them. */
export async function reachAll(
  { access }: Pick<ReachParts, 'access'>,
  actor: Actor,
  action: Action = 'see',
): Promise<Outcome<'all'>> {
  const seen = await access.may(actor, 'see', 'all')
  if (seen.kind !== 'allowed') return refusalOf(seen)
  const permission = action === 'see' ? seen : await access.may(actor, action, 'all')
  return permission.kind === 'allowed' ? ok('all') : refusalOf(permission)
}

/** Checks the right on the tenant, or on all tenants if none is given. */
export function reachOwner(
  parts: Pick<ReachParts, 'access' | 'directory'>,
  actor: Actor,
  tenantId: TenantId | null | undefined,
  action: Action,
): Promise<Outcome<DirectoryTenant | 'all'>> {
  return tenantId === null || tenantId === undefined
    ? reachAll(parts, actor, action)
    : reachTenant(parts, actor, tenantId, action)
}

function refusalOf(permission: Exclude<Permission, { kind: 'allowed' }>) {
  return permission.kind === 'refused' ? forbidden : permission
}

export async function reachEvent(
  parts: SharedParts,
  actor: Actor,
  id: EventId,
  action?: Action,
): Promise<Outcome<{ readonly event: EventSummary; readonly tenant: DirectoryTenant }>> {
  const { events } = await listEvents(
    parts.readPool,
    { id, limit: 1, ...ownTenant(actor) },
    parts.clock.now(),
  )
  const [event] = events
  const reached = await reachTenant(parts, actor, { tenantId: event?.tenantId, named: id }, action)
  if (reached.kind !== 'ok') return reached
  return event === undefined ? notFound : ok({ event, tenant: reached.value })
}

/** Limits a query to the actor's own tenant if the actor is a tenant's key. */
export function ownTenant(actor: Actor): { readonly tenantId?: TenantId } {
  return actor.kind === 'tenantKey' ? { tenantId: actor.tenantId } : {}
}

export async function reachList(
  parts: ReachParts,
  actor: Actor,
  { tenantId, namespaces }: TenantSelection,
): Promise<Outcome<ListScope>> {
  if (tenantId !== undefined) {
    if (namespaces !== undefined) return invalid('Name a tenant or namespaces, not both')
    const reached = await reachTenant(parts, actor, tenantId)
    return reached.kind === 'ok' ? ok({ kind: 'tenants', tenantIds: [tenantId] }) : reached
  }
  const seen = await reachNamespaces(parts, actor, namespaces)
  if (seen.kind !== 'ok') return seen
  if (seen.value.kind === 'all') return ok({ kind: 'all' })
  if (seen.value.kind === 'tenant') return ok({ kind: 'tenants', tenantIds: [seen.value.tenantId] })
  const within = { namespaces: seen.value.namespaces, rowsMax: listTenantsMax + 1 }
  const tenantIds = (await listTenantHeads(parts.pool, within)).map(({ id }) => id)
  return tenantIds.length > listTenantsMax
    ? invalid(`These namespaces have more than ${listTenantsMax} tenants: name a tenant`)
    : ok({ kind: 'tenants', tenantIds })
}

/** Tenants that the actor sees: all, those of the requested namespaces, or only the tenant of a key. */
export type SeenNamespaces =
  | { readonly kind: 'all' }
  | { readonly kind: 'namespaces'; readonly namespaces: readonly string[] }
  | { readonly kind: 'tenant'; readonly tenantId: TenantId }

/** Returns which of the requested namespaces the actor sees. If none is requested, the actor must see all tenants or be a tenant's key. */
export async function reachNamespaces(
  { access }: Pick<ReachParts, 'access'>,
  actor: Actor,
  namespaces?: readonly string[],
): Promise<Outcome<SeenNamespaces>> {
  const visible = await access.visibleTenants(actor, namespaces)
  switch (visible.kind) {
    case 'unavailable':
      return visible
    case 'tooMany':
      return invalid(`Name at most ${namespacesMax} namespaces`)
    case 'all':
      return ok(namespaces === undefined ? { kind: 'all' } : { kind: 'namespaces', namespaces })
    case 'namespaces':
      return namespaces === undefined ? forbidden : ok(visible)
    case 'tenant':
      return namespaces === undefined
        ? ok(visible)
        : invalid('This key belongs to one tenant: omit the namespaces')
  }
}

import {
  type Action,
  type Actor,
  namespacesMax,
  type Permission,
  type TenantPlace,
} from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { forbidden, invalid, notFound, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'

/**
 * Whose rows a list is to have. A tenant that may not be seen is not found. Without one: all that the actor sees, which for somebody
 * who does not see the whole cluster are those of the named namespaces, and for a tenant's key that tenant.
 */
export interface Whose {
  readonly tenantId?: TenantId | undefined
  /** At most 50. Whoever sees all may name some, too. */
  readonly namespaces?: readonly string[] | undefined
}

/** Whose rows a list has, once it was asked what may be seen. */
export type ListScope =
  | { readonly kind: 'all' }
  | { readonly kind: 'tenants'; readonly tenantIds: readonly TenantId[] }

/** Tenants that the rows of one list may be of where they are not all. */
export const listTenantsMax = 50
const retryAfterMs = 1_000

type ReachParts = Pick<BackofficeParts, 'access' | 'directory' | 'pool'>

/** Which tenant is meant: by its id, or by something else that `named` has, as whose tenant (undefined: nobody's) was found. */
export type MeantTenant = TenantId | { readonly tenantId: TenantId | undefined; readonly named: string }

/** What is asked about in place of a tenant that is not there. No namespace has this name. */
const nowhere: TenantPlace = { id: '' as TenantId, namespace: '-', name: '-' }

/**
 * The tenant, where the actor sees it and may do this with it. What is unknown and what may not be seen is not told apart: as many
 * questions are asked about either, each time that another name is given, so that either fails while nobody answers.
 */
export async function reachTenant(
  { access, directory }: Pick<ReachParts, 'access' | 'directory'>,
  actor: Actor,
  meant: MeantTenant,
  action: Action = 'see',
): Promise<Outcome<DirectoryTenant>> {
  if (!directory.hasSnapshot()) return { kind: 'unavailable', retryAfterMs }
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

/** Whether the actor sees all tenants and may do this with them, and with what belongs to none. */
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

/** Whether the actor sees whose something is and may do this with it: one tenant, or, where there is none, all of them. */
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

/** Whose rows a list of this actor has. */
export async function reachList(parts: ReachParts, actor: Actor, whose: Whose): Promise<Outcome<ListScope>> {
  const { tenantId, namespaces } = whose
  if (tenantId !== undefined) {
    if (namespaces !== undefined) return invalid('Name a tenant or namespaces, not both')
    const reached = await reachTenant(parts, actor, tenantId)
    return reached.kind === 'ok' ? ok({ kind: 'tenants', tenantIds: [tenantId] }) : reached
  }
  const seen = await reachNamespaces(parts, actor, namespaces)
  if (seen.kind !== 'ok') return seen
  if (seen.value.kind === 'all') return ok({ kind: 'all' })
  if (seen.value.kind === 'tenant') return ok({ kind: 'tenants', tenantIds: [seen.value.tenantId] })
  const tenantIds = await listTenantIds(parts, seen.value.namespaces)
  return tenantIds.length > listTenantsMax
    ? invalid(`These namespaces have more than ${listTenantsMax} tenants: name a tenant`)
    : ok({ kind: 'tenants', tenantIds })
}

/** Whose tenants an actor sees, of those in the namespaces that were named. */
export type SeenNamespaces =
  | { readonly kind: 'all' }
  | { readonly kind: 'namespaces'; readonly namespaces: readonly string[] }
  | { readonly kind: 'tenant'; readonly tenantId: TenantId }

/** Asks what an actor sees of some namespaces, or of all. Who sees no cluster has to name some. */
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
      return namespaces === undefined ? ok(visible) : invalid('This key is of one tenant: name no namespaces')
  }
}

// By the index over namespace and name. A read, no locks.
async function listTenantIds({ pool }: ReachParts, namespaces: readonly string[]): Promise<TenantId[]> {
  if (namespaces.length === 0) return []
  const { rows } = await pool.query<[TenantId]>({
    text: `SELECT id FROM tenants WHERE deleted_at IS NULL AND namespace = ANY($1) ORDER BY namespace, name LIMIT ${listTenantsMax + 1}`,
    rowMode: 'array',
    values: [namespaces],
  })
  return rows.map(([id]) => id)
}

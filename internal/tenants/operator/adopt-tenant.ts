import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import { adoptAnnotation } from '../crd/platform-policy.ts'
import { adoptTenant } from '../reconcile/apply.ts'
import type { TenantManifest } from '../source.ts'
import { findTenantIdOfUid } from '../store.ts'
import { applyContextOf, expectMine } from './apply-context.ts'
import type { LeaderContext } from './tenant-context.ts'
import type { TenantObject } from './tenant-object.ts'

/** Whether a Tenant has what it wants to take over. `message` says what to do. */
export type Adopted =
  | { readonly kind: 'none' }
  | { readonly kind: 'adopted' }
  | { readonly kind: 'refused'; readonly message: string }

/**
 * Takes over the retained data that the annotation names, before the Tenant gets an id of its own: afterwards it could not be
 * taken over any more. Repeating it is harmless.
 */
export async function adoptIfAsked(
  context: LeaderContext,
  object: TenantObject,
  { uid, namespace, name }: TenantManifest,
): Promise<Adopted> {
  const asked = object.metadata.annotations?.[adoptAnnotation]
  if (asked === undefined) return { kind: 'none' }
  const id = tenantIdOf(asked)
  if (id === undefined)
    return refused(`${adoptAnnotation} must be a tenant's id, such as status.tenantId shows`)
  const own = await findTenantIdOfUid(context.pool, uid)
  if (own === id) return { kind: 'none' }
  if (own !== undefined) {
    return refused(
      `this Tenant has data of its own as ${own}: to take over another's, delete it and create it with the annotation`,
    )
  }
  const applied = await adoptTenant(
    applyContextOf(context),
    { id, uid, namespace, name },
    context.clock.now(),
  )
  if (applied.kind === 'conflict') {
    return refused(
      `there is no deleted tenant ${id} whose data was retained: mend or remove ${adoptAnnotation}`,
    )
  }
  expectMine(applied)
  context.log.info({ tenant: `${namespace}/${name}`, tenantId: id }, 'tenant took over retained data')
  return { kind: 'adopted' }
}

function tenantIdOf(text: string): TenantId | undefined {
  try {
    return parseTenantId(text)
  } catch {
    return undefined
  }
}

function refused(message: string): Adopted {
  return { kind: 'refused', message }
}

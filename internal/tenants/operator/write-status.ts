import { expectOk } from '#internal/kube/index.ts'
import type { TenantStatus } from '../crd/status.ts'
import { conditionEvents } from './condition-events.ts'
import { sameStatus } from './status.ts'
import type { LeaderContext } from './tenant-context.ts'
import { type TenantObject, tenantObjects } from './tenant-object.ts'

/** Field manager of status writes; separate from that of metadata. */
const statusManager = 'latchkey-operator-status'
/**
 * Applies a Tenant's status and records the events of what changed; true when something was written. Repeating it is safe.
 * @throws KubeError when the API server does not take it
 */
export async function writeStatus(
  context: LeaderContext,
  object: TenantObject,
  status: TenantStatus,
): Promise<boolean> {
  if (sameStatus(object, status) || !context.leadership.isHeld()) return false
  const { namespace, name, uid } = object.metadata
  const metadata = { name, ...(namespace !== undefined && { namespace }), ...(uid !== undefined && { uid }) }
  const options = { fieldManager: statusManager, force: true, subresource: 'status' } as const
  const result = await context.client.apply(tenantObjects, { metadata, status }, options)
  // Deleted meanwhile: there is nothing left to tell.
  if (result.kind === 'notFound' || result.kind === 'conflict') return false
  expectOk('writing the status of a Tenant', result)
  for (const event of conditionEvents(object, status)) context.events.record(event)
  return true
}

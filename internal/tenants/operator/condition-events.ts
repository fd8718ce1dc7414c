import type { Occurrence } from '#internal/kube/index.ts'
import type { TenantStatus } from '../crd/status.ts'
import { tenantApiVersion } from '../model.ts'
import { weakSecretReason } from '../reconcile/conditions.ts'
import type { TenantObject } from './tenant-object.ts'

/** Who an event is about. */
export function referenceTo({ metadata }: TenantObject): Occurrence['regarding'] {
  const { namespace, name, uid } = metadata
  return {
    apiVersion: tenantApiVersion,
    kind: 'Tenant',
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
  }
}

/** One thing to tell of a Tenant. */
export function occurrence(
  object: TenantObject,
  told: Pick<Occurrence, 'type' | 'reason' | 'action' | 'note'>,
): Occurrence {
  return { regarding: referenceTo(object), ...told }
}

/** Reasons of DeletionWaiting that resolve without intervention; their events are Normal. */
const deletionGoesOn: ReadonlySet<string> = new Set(['GracePeriod', 'RemovingData', 'OtherFinalizers'])

/**
 * What a change of conditions is worth telling: each that became false or false for another reason, and the tenant's becoming
 * ready after it was not. The wallet's rollout is a choice, told once it moves. Pure.
 */
export function conditionEvents(object: TenantObject, next: TenantStatus): Occurrence[] {
  const before = new Map(object.status?.conditions?.map((condition) => [condition.type, condition]))
  return (next.conditions ?? []).flatMap(({ type, status, reason, message }) => {
    const known = before.get(type)
    if (known?.status === status && known.reason === reason) return []
    const told = { reason, action: 'Reconcile', note: `${type}: ${message}` }
    if (type === 'DeletionWaiting') {
      const isWarning = !deletionGoesOn.has(reason)
      return [occurrence(object, { type: isWarning ? 'Warning' : 'Normal', ...told, action: 'Delete' })]
    }
    if (type === 'WalletEnabled')
      return known === undefined ? [] : [occurrence(object, { type: 'Normal', ...told })]
    if (status === 'False') {
      // What keeps it from being ready is told by the condition that says so.
      const toldElsewhere = next.conditions?.some(
        (other) => other.type !== 'Ready' && other.reason === reason,
      )
      if (type === 'Ready' && toldElsewhere) return []
      return [occurrence(object, { type: 'Warning', ...told })]
    }
    if (reason === weakSecretReason) return [occurrence(object, { type: 'Warning', ...told })]
    // Ready from the first is what everybody expects, and a thousand of it would be in the way of what nobody does.
    return type === 'Ready' && known !== undefined ? [occurrence(object, { type: 'Normal', ...told })] : []
  })
}

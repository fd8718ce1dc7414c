import type { TenantId } from '#internal/base/index.ts'

/** Receiver of a tenant's deliveries. Each has a tenant queue of its own, with its own suspension and circuit breaker. */
export type DeliveryTarget = 'callback' | 'notifications'

/**
 * Id of a tenant queue: the tenant's id for deliveries to its callback, and this id with a suffix for notifications. The columns `tenant_id`
 * of `tenant_queues` and `deliveries_due` contain it.
 */
export type QueueId = string & { readonly __brand: 'QueueId' }

const notificationsSuffix = '/notifications'

/** Returns the id of a tenant's queue. Pure. */
export function queueIdOf(tenantId: TenantId, target: DeliveryTarget): QueueId {
  const id: string = target === 'callback' ? tenantId : `${tenantId}${notificationsSuffix}`
  return id as QueueId
}

/** Returns the tenant and the target of a tenant queue. Pure. */
export function ownerOfQueue(queueId: string): {
  readonly tenantId: TenantId
  readonly target: DeliveryTarget
} {
  return queueId.endsWith(notificationsSuffix)
    ? { tenantId: queueId.slice(0, -notificationsSuffix.length) as TenantId, target: 'notifications' }
    : { tenantId: queueId as TenantId, target: 'callback' }
}

/** SQL for the id of the tenant that owns a tenant queue. @param column SQL of the queue's id */
export const tenantOfQueueText = (column: string) => `split_part(${column}, '/', 1)`
/** SQL condition on the queue of a callback. @param column SQL of the queue's id */
export const isCallbackQueueText = (column: string) => `strpos(${column}, '/') = 0`
/** SQL for the id of the queue of notifications. @param column SQL of the tenant's id */
export const notificationQueueText = (column: string) => `${column} || '${notificationsSuffix}'`
/** SQL for an array with the ids of both queues of a tenant. @param column SQL of the tenant's id, as text */
export const queuesOfTenantText = (column: string) => `ARRAY[${column}, ${notificationQueueText(column)}]`

import type { EventId, TenantId } from '#internal/base/index.ts'
import type { OriginKind } from './origin.ts'

/** Name of one of a tenant's destinations, unique within the tenant: lowercase letters, digits and `-`. */
export type DestinationName = string

/** Destination that `spec.callback` configures. */
export const callbackDestination: DestinationName = 'callback'
/** Destination that `spec.notifications` configures. Only notifications of the tenant's owner go there. */
export const notificationsDestination: DestinationName = 'notifications'

/** Destination of a tenant. It has a tenant queue of its own, with its own suspension and circuit breaker. */
export interface DestinationKey {
  readonly tenantId: TenantId
  readonly destination: DestinationName
}

/** Text form of a `DestinationKey`, `<tenant id>/<destination>`, for messages and for keys in memory. */
export type QueueId = string & { readonly __brand: 'QueueId' }

/** Returns the id of the tenant queue of a destination. Pure. */
export function queueIdOf({ tenantId, destination }: DestinationKey): QueueId {
  return `${tenantId}/${destination}` as QueueId
}

/** Returns the id of the tenant queue of a tenant's callback. Pure. */
export function callbackQueueOf(tenantId: TenantId): QueueId {
  return queueIdOf({ tenantId, destination: callbackDestination })
}

/** Returns the destination that a tenant queue serves. Pure. */
export function destinationOfQueue(queueId: string): DestinationKey {
  const slash = queueId.indexOf('/')
  return { tenantId: queueId.slice(0, slash) as TenantId, destination: queueId.slice(slash + 1) }
}

/** Key of a delivery in memory, `<event id>/<destination>`. */
export type DeliveryId = string & { readonly __brand: 'DeliveryId' }

/** Returns the key of a delivery. Pure. */
export function deliveryIdOf(delivery: {
  readonly eventId: EventId
  readonly destination: DestinationName
}): DeliveryId {
  return `${delivery.eventId}/${delivery.destination}` as DeliveryId
}

/** SQL for the id of a tenant queue. @param alias prefix of the columns, such as `q.` */
export const queueIdText = (alias = '') => `${alias}tenant_id || '/' || ${alias}destination`
/**
 * SQL condition on the rows of `deliveries_due` in a tenant queue, served by `deliveries_due_queue` alone.
 * @param alias prefix of the columns of the tenant queue, such as `q.`
 */
export const isInQueueText = (alias: string) => `${queueIdText()} = ${queueIdText(alias)}`
/** SQL condition on the rows of `deliveries_due` of a tenant. @param tenantId SQL of the tenant's id, as text */
export const isOfTenantText = (tenantId: string) =>
  `${queueIdText()} >= ${tenantId} || '/' AND ${queueIdText()} < ${tenantId} || '0'`
/** SQL condition on the tenant queues, deliveries and alerts of callbacks. */
export const isCallbackText = `destination = '${callbackDestination}'`
/** SQL for the key of a delivery. @param event SQL of the event's id */
export const deliveryIdText = (event: string) => `${event} || '/' || destination`
/** Returns the destination of events with this origin. Pure. */
export function destinationOf(origin: OriginKind): DestinationName {
  return origin === 'notification' ? notificationsDestination : callbackDestination
}

/** SQL for the destination of an event with this origin. @param origin SQL of the origin */
export const destinationOfText = (origin: string) =>
  `CASE ${origin} WHEN 'notification' THEN '${notificationsDestination}' ELSE '${callbackDestination}' END`
/**
 * SQL condition on a row of `deliveries_due`: whether it is among the deliveries of a part of the query. The array lets Postgres find rows
 * only by their key, whatever it knows of the table; `IS TRUE` keeps it from planning a join in place of a hash of the pairs.
 * @param part name of a WITH query, with a condition if needed
 */
export const isAmongText = (part: string, event = 'event_id') =>
  `event_id = ANY(ARRAY(SELECT ${event} FROM ${part})) AND ((event_id, destination) IN (SELECT ${event}, destination FROM ${part})) IS TRUE`

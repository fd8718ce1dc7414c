import {
  createEventId,
  type Day,
  dayAfter,
  type EventId,
  isTenantId,
  type TenantId,
  tenantIdChars,
} from '#internal/base/index.ts'
import { type ProviderName, type RetentionDays, reservedProviderName } from '#internal/tenants/index.ts'

/** `accepted`: to be delivered. `verified`: stored but not delivered, while the tenant only verifies events of this provider. */
export type EventStateAtReceipt = 'accepted' | 'verified'

/** A verified and parsed event, as it is stored, queued or spooled. */
export interface ReceivedEvent {
  readonly id: EventId
  /** Deduplication key: 16 bytes in hex. */
  readonly dedupeKey: string
  readonly tenantId: TenantId
  readonly provider: ProviderName | OwnProvider
  readonly sourceEventId: string
  readonly rawType: string
  readonly type: string
  readonly occurredAtMs: number
  readonly receivedAtMs: number
  /** Headers as JSON text: an object whose values are strings. */
  readonly headers: string
  /** Payload as received: JSON text of an object. */
  readonly payload: string
  readonly payloadBytes: number
  readonly expiresOn: Day
  readonly payloadExpiresOn: Day
  readonly dedupeExpiresOn: Day
  readonly origin: EventOrigin
  readonly state: EventStateAtReceipt
  /** True if the event was accepted above its tenant's monthly limit. */
  readonly overLimit?: true
  /** True if a duplicate of a failed event begins a new delivery cycle, by the tenant's setting. Set for providers' calls only. */
  readonly retriesOnRedelivery?: true
  /** True if the tenant has no callback: the event waits until a subscription acknowledges it. Only for `accepted` events. */
  readonly isPullOnly?: true
}

/** Returns the size of an event in memory and in messages: bytes of its payload and characters of its headers. */
export function sizeOfEvent({ payloadBytes, headers }: ReceivedEvent): number {
  return payloadBytes + headers.length
}

/** Adds a new id, the dedupe key and the days of expiry to a new event. The dedupe key is kept for at least `dedupeDaysMin` days. */
export function createEvent(
  fields: Omit<
    ReceivedEvent,
    'id' | 'dedupeKey' | 'payloadBytes' | 'expiresOn' | 'payloadExpiresOn' | 'dedupeExpiresOn'
  >,
  { payloadDays, eventDays }: RetentionDays,
  dedupeDaysMin: number,
): ReceivedEvent {
  const { tenantId, provider, sourceEventId, receivedAtMs, payload } = fields
  // Tenant ids and provider names contain no line feed, so different combinations produce different texts. `list.ts` has the same in SQL.
  const dedupeText = `${tenantId}\n${provider}\n${sourceEventId}`
  return {
    ...fields,
    id: createEventId(receivedAtMs, eventDays),
    dedupeKey: Bun.SHA256.hash(dedupeText, 'hex').slice(0, 32),
    payloadBytes: Buffer.byteLength(payload),
    expiresOn: dayAfter(receivedAtMs, eventDays),
    payloadExpiresOn: dayAfter(receivedAtMs, payloadDays),
    dedupeExpiresOn: dayAfter(receivedAtMs, Math.max(eventDays, dedupeDaysMin)),
  }
}

/** Returns as many of the first events as fit into the maximum bytes of payloads, but at least one. */
export function withinBytes<Event extends { readonly payloadBytes: number }>(
  events: readonly Event[],
  bytesMax: number,
): readonly Event[] {
  let bytes = 0
  const end = events.findIndex(({ payloadBytes }, at) => {
    bytes += payloadBytes
    return bytes > bytesMax && at > 0
  })
  return end < 0 ? events : events.slice(0, end)
}

/** Provider of notifications, which this service makes itself. */
export const ownProvider = reservedProviderName
/** Provider of notifications. */
export type OwnProvider = typeof ownProvider

/**
 * Kinds of origins. `provider`: a call with a verified signature. `service`: another service submitted the event over the internal API.
 * `simulation`: a simulation made it. `test`: it tests a callback. `notification`: this service made it, about the tenant's operation; only
 * `spec.notifications` receives it. Versions before the column `origin` stored every event as `provider`.
 */
export const originKinds = ['provider', 'service', 'simulation', 'test', 'notification'] as const
/** Kind of an event's origin; one of `originKinds`. */
export type OriginKind = (typeof originKinds)[number]

/** Origin of an event. `actor`: name in the audit log of the service or user that submitted it. */
export type EventOrigin =
  | { readonly kind: 'provider' }
  | { readonly kind: 'notification' }
  | { readonly kind: 'service' | 'test'; readonly actor: string }
  | { readonly kind: 'simulation'; readonly simulationId: string }

/** Origin of a provider's call. */
export const fromProvider: EventOrigin = { kind: 'provider' }

/**
 * Header with the number of forwards of an event. Each forward increments it, so that a callback that sends events back cannot cause an
 * endless loop.
 */
export const hopsHeader = 'latchkey-hops'
/** Header with the kind of origin, absent for a provider's call. Callers cannot set headers that begin with `latchkey-`. */
const originHeader = 'latchkey-origin'
const simulationHeader = 'latchkey-simulation'

/** Returns headers with the origin of an event, for its receiver. */
export function originHeaders(origin: EventOrigin): Readonly<Record<string, string>> {
  if (origin.kind === 'provider') return {}
  const simulation = origin.kind === 'simulation' ? { [simulationHeader]: origin.simulationId } : {}
  return { [originHeader]: origin.kind, ...simulation }
}

export function originByOf(origin: EventOrigin): string | null {
  if (origin.kind === 'provider' || origin.kind === 'notification') return null
  return origin.kind === 'simulation' ? origin.simulationId : origin.actor
}

export function originOf(kind: OriginKind, by: string | null): EventOrigin {
  if (kind === 'provider') return fromProvider
  if (kind === 'notification') return { kind }
  return kind === 'simulation' ? { kind, simulationId: by ?? '' } : { kind, actor: by ?? '' }
}

/** Name of one of a tenant's destinations, unique within the tenant: 1 to 32 lowercase letters, digits and `-`. */
export type DestinationName = string

const destinationCharsMax = 32
const destinationForm = new RegExp(`^[a-z0-9-]{1,${destinationCharsMax}}$`)

/** Destination that `spec.callback` configures. */
export const callbackDestination: DestinationName = 'callback'
/** Destination that `spec.notifications` configures. Only notifications of the tenant's owner go there. */
export const notificationsDestination: DestinationName = 'notifications'

/**
 * Returns whether a destination receives the tenant's events, and not notifications about its deliveries. Only such a destination has
 * statistics, notifications about its failures, and a pause of its tenant.
 */
export function carriesEvents(destination: DestinationName): boolean {
  return destination !== notificationsDestination
}

/** Destination of a tenant. It has a tenant queue of its own, with its own suspension and circuit breaker. */
export interface DestinationKey {
  readonly tenantId: TenantId
  readonly destination: DestinationName
}

/** Text form of a `DestinationKey`, `<tenant id>/<destination>`, for messages and for keys in memory. */
export type QueueId = string & { readonly __brand: 'QueueId' }

/** Maximum characters of a `QueueId`. */
export const queueIdCharsMax = tenantIdChars + '/'.length + destinationCharsMax

/** Recognizes the form of a `QueueId`. */
export function isQueueId(value: unknown): value is QueueId {
  if (typeof value !== 'string') return false
  const { tenantId, destination } = destinationOfQueue(value)
  return isTenantId(tenantId) && destinationForm.test(destination)
}

/** Returns the id of the tenant queue of a destination. */
export function queueIdOf({ tenantId, destination }: DestinationKey): QueueId {
  return `${tenantId}/${destination}` as QueueId
}

/** Returns the id of the tenant queue of a tenant's callback. */
export function callbackQueueOf(tenantId: TenantId): QueueId {
  return queueIdOf({ tenantId, destination: callbackDestination })
}

/** Returns the destination that a tenant queue serves. */
export function destinationOfQueue(queueId: string): DestinationKey {
  const slash = queueId.indexOf('/')
  return { tenantId: queueId.slice(0, slash) as TenantId, destination: queueId.slice(slash + 1) }
}

/** Key of a delivery in memory, `<event id>/<destination>`. */
export type DeliveryId = string & { readonly __brand: 'DeliveryId' }

/** Returns the key of a delivery. */
export function deliveryIdOf(delivery: {
  readonly eventId: EventId
  readonly destination: DestinationName
}): DeliveryId {
  return `${delivery.eventId}/${delivery.destination}` as DeliveryId
}

/** SQL of the id of a tenant queue. @param alias prefix of the columns, such as `q.` */
export const queueIdText = (alias = '') => `${alias}tenant_id || '/' || ${alias}destination`
/** SQL condition on a tenant queue's rows; only the index `deliveries_due_queue` serves it. @param alias columns' prefix, such as `q.` */
export const isInQueueText = (alias: string) => `${queueIdText()} = ${queueIdText(alias)}`
/** SQL condition on the rows of `deliveries_due` of a tenant. @param tenantId SQL of the tenant's id, as text */
export const isOfTenantText = (tenantId: string) =>
  `${queueIdText()} >= ${tenantId} || '/' AND ${queueIdText()} < ${tenantId} || '0'`
/** SQL condition on the tenant queues, deliveries and alerts of callbacks. */
export const isCallbackText = `destination = '${callbackDestination}'`
/** SQL condition on a tenant that has a callback. @param alias prefix of the columns of `tenants`, such as `t.` */
export const hasCallbackText = (alias = '') => `'${callbackDestination}' = ANY(${alias}destinations)`
/** SQL of `carriesEvents` for the column `destination`. */
export const carriesEventsText = `destination <> '${notificationsDestination}'`
/** SQL of the key of a delivery. @param event SQL of the event's id */
export const deliveryIdText = (event: string) => `${event} || '/' || destination`
/** Returns the destination of events with this origin; `destinationOfText` is the same in SQL. */
export function destinationOf(origin: OriginKind): DestinationName {
  return origin === 'notification' ? notificationsDestination : callbackDestination
}

/** SQL of the destination of events with an origin. @param origin SQL of the origin */
export const destinationOfText = (origin: string) =>
  `CASE ${origin} WHEN 'notification' THEN '${notificationsDestination}' ELSE '${callbackDestination}' END`
/**
 * SQL condition on the rows whose event and destination are in `part`. The array makes Postgres find rows only by their key, whatever its
 * statistics; `IS TRUE` makes it hash the pairs and not join them.
 * @param part name of a WITH query, with a condition if needed
 * @param event column of `part` with the event's id
 * @param key column of the rows with the event's id
 */
export const isAmongText = (part: string, event = 'event_id', key = 'event_id') =>
  `${key} = ANY(ARRAY(SELECT ${event} FROM ${part})) AND ((${key}, destination) IN (SELECT ${event}, destination FROM ${part})) IS TRUE`

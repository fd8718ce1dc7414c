import type { Day, EventId, TenantId } from '#internal/base/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'

/**
 * `accepted`: a delivery cycle of attempts is under way or waits. `verified`: stored and not to be delivered, as long as the provider is
 * only tried out.
 */
export type EventStateAtReceipt = 'accepted' | 'verified'

/** An event that was verified and read, whole, as it is stored, queued or spooled. */
export interface ReceivedEvent {
  readonly id: EventId
  /** What duplicates share: 16 bytes in hex. */
  readonly dedupeKey: string
  readonly tenantId: TenantId
  readonly provider: ProviderName
  readonly sourceEventId: string
  readonly rawType: string
  readonly type: string
  /** Milliseconds since the epoch, as are all times here. */
  readonly occurredAtMs: number
  readonly receivedAtMs: number
  /** JSON text of an object of strings. */
  readonly headers: string
  /** JSON text of an object, as received. */
  readonly payload: string
  readonly payloadBytes: number
  readonly expiresOn: Day
  readonly payloadExpiresOn: Day
  readonly dedupeExpiresOn: Day
  readonly state: EventStateAtReceipt
  /** It came in over its tenant's limit of a month, and was accepted. */
  readonly overLimit?: true
  /** Its tenant wants a new delivery cycle for an event that had failed when this is a duplicate of it; never set for simulations. */
  readonly retriesOnRedelivery?: true
}

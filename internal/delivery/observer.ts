import type { TenantId } from '#internal/base/index.ts'
import type {
  Attempt,
  ClaimedDelivery,
  Ending,
  EventContent,
  SuspendedCause,
} from '#internal/events/index.ts'
import type { NotificationType } from '#internal/tenants/index.ts'
import type { DestinationKindName } from './destinations/registry.ts'

/** Report of an attempt, for one log line and the metrics. */
export interface AttemptReport {
  readonly delivery: ClaimedDelivery
  /** Kind of the destination; undefined if the tenant no longer has it. */
  readonly destinationKind: DestinationKindName | undefined
  /** Undefined if the attempt ended without the event's content, since no call was made. */
  readonly content: EventContent | undefined
  readonly ending: Extract<Ending, { readonly attempt: Attempt }>
  /** Time from the receipt of the event to the start of this attempt. Set for first attempts of first delivery cycles only. */
  readonly delayMs: number | undefined
}

/** Operations of a forwarder, as named in the report of a failure that will be retried. */
export type ForwarderStep =
  | 'claim'
  | 'load'
  | 'send'
  | 'complete'
  | 'renew'
  | 'sweep'
  | 'release'
  | 'alerts'
  | 'offer'

/** Callbacks of a forwarder, for logs and metrics. They must not throw or block. */
export interface ForwarderObserver {
  claimed(rows: number): void
  /** Called with the number of deliveries of a message from intake that this process accepted. */
  handed(count: number): void
  attempted(report: AttemptReport): void
  /** Called with the number of deliveries whose lease expired before they were completed. These deliveries are repeated. */
  leasesLost(count: number): void
  /**
   * Called for an outcome that Postgres rejects; the outcome is given up.
   * @param cause SQLSTATE or name of the error
   */
  unwritable(delivery: ClaimedDelivery, cause: string): void
  /** Called with the number of stalled tenant queues that the sweep woke. A number above 0 indicates a fault elsewhere. */
  swept(queues: number): void
  released(count: number): void
  /**
   * Called when a tenant's circuit breaker opens: once over all processes, not for each delivery in flight, and not again when a probe
   * fails.
   */
  breakerOpened(tenantId: TenantId): void
  callbackSuspended(tenantId: TenantId, cause: SuspendedCause): void
  /** Called when the receiver of a tenant's notifications asked for no further ones. */
  notificationsSuspended(tenantId: TenantId, cause: SuspendedCause): void
  /** Called for each notification that was stored for the owner of a tenant. */
  ownerNotified(type: NotificationType): void
  /** Called when a tenant has no usable signing secret. */
  signingUnavailable(tenantId: TenantId): void
  failed(step: ForwarderStep, error: unknown): void
}

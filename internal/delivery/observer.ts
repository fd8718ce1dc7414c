import type { TenantId } from '#internal/base/index.ts'
import type {
  AttemptRecord,
  ClaimedDelivery,
  Ending,
  EventContent,
  SuspendedCause,
} from '#internal/events/index.ts'

/** Report of an attempt, for one log line and the metrics. */
export interface AttemptReport {
  readonly delivery: ClaimedDelivery
  /** Undefined where the attempt needed no event. */
  readonly content: EventContent | undefined
  readonly ending: Extract<Ending, { readonly attempt: AttemptRecord }>
  /** Time from receipt to this call; of first attempts of first delivery cycles only. */
  readonly delayMs: number | undefined
}

/** Step that failed and is retried. */
export type ForwarderStep = 'claim' | 'load' | 'send' | 'complete' | 'renew' | 'sweep' | 'release'

/** Receives what a forwarder does. Its functions must not throw or wait. */
export interface ForwarderObserver {
  claimed(rows: number): void
  attempted(report: AttemptReport): void
  /** Deliveries whose lease ended before they were completed; they are repeated. */
  leasesLost(count: number): void
  /** An ending that Postgres rejects; it is given up. @param cause an SQLSTATE or an error's name */
  unwritable(delivery: ClaimedDelivery, cause: string): void
  /** Stalled tenant queues that the sweep woke; 0 unless something else is wrong. */
  swept(queues: number): void
  released(count: number): void
  /** Called once per opening over all processes: not for each delivery in flight, and not again when a probe fails. */
  breakerOpened(tenantId: TenantId): void
  callbackSuspended(tenantId: TenantId, cause: SuspendedCause): void
  /** The tenant has no usable signing secret. */
  signingUnavailable(tenantId: TenantId): void
  failed(step: ForwarderStep, error: unknown): void
}

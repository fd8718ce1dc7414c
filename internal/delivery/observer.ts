import type { TenantId } from '#internal/base/index.ts'
import type {
  AttemptRecord,
  ClaimedDelivery,
  Ending,
  EventContent,
  SuspendedCause,
} from '#internal/events/index.ts'

/** An attempt that has ended, for one log line and the metrics. */
export interface AttemptReport {
  readonly delivery: ClaimedDelivery
  /** Absent where nothing was loaded because nothing was to be sent. */
  readonly content: EventContent | undefined
  readonly ending: Extract<Ending, { readonly attempt: AttemptRecord }>
  /** From the provider's call to this call; of first attempts of first delivery cycles only. */
  readonly delayMs: number | undefined
}

/** Statements that may fail while the work goes on. */
export type ForwarderStep = 'claim' | 'load' | 'send' | 'complete' | 'renew' | 'sweep' | 'release'

/** Hears what a forwarder does. Nothing in it may throw or wait. */
export interface ForwarderObserver {
  claimed(rows: number, durationMs: number): void
  attempted(report: AttemptReport): void
  /** Rows that others have taken over, since their lease had ended: they are delivered once more. */
  leasesLost(count: number): void
  /** A row's end that Postgres refuses for what is in it: given up. `cause` is an SQLSTATE or an error's name. */
  unwritable(delivery: ClaimedDelivery, cause: string): void
  /** Tenant queues that overslept; stays 0 unless something else is wrong. */
  swept(queues: number): void
  released(count: number): void
  /** Called once per opening over all processes: not for each delivery in flight, and not again when a probe fails. */
  breakerOpened(tenantId: TenantId): void
  callbackSuspended(tenantId: TenantId, cause: SuspendedCause): void
  /** The tenant has no usable signing secret. */
  signingUnavailable(tenantId: TenantId): void
  failed(step: ForwarderStep, error: unknown): void
}

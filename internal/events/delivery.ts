import type { Day, EventId, TenantId } from '#internal/base/index.ts'

/** A delivery that this process has taken, under its lease, with what is needed to bring it to its end. */
export interface ClaimedDelivery {
  readonly eventId: EventId
  readonly tenantId: TenantId
  readonly payloadExpiresOn: Day
  readonly payloadBytes: number
  readonly cycle: number
  /** Attempts of this delivery cycle that have ended. */
  readonly attempts: number
  /** Takings since the last attempt that was completed; with the lease it tells whether the row is still ours. */
  readonly claims: number
  /** Not the first try of its delivery cycle, or one that was snoozed. */
  readonly isRetry: boolean
  /** Tries a callback whose breaker is half open. */
  readonly isProbe: boolean
}

/** What a callback gets of an event, apart from the ids that a claim knows. */
export interface EventContent {
  readonly provider: string
  readonly rawType: string
  readonly type: string
  readonly occurredAtMs: number
  readonly receivedAtMs: number
  /** JSON text of an object of strings. */
  readonly headers: string
  /** JSON text of an object, as received. */
  readonly payload: string
}

/** A process' own name on the rows that it takes, and how long such a row is its own. */
export interface Lease {
  readonly token: string
  readonly lengthMs: number
}

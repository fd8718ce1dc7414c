import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { AttemptExchange, EventContent } from '#internal/events/index.ts'

/** Settings with decrypted secrets. */
export interface HttpSettings {
  /** Empty while the Secret that contains the URL is missing. */
  readonly url: string
  /** URL for records of attempts. Lacks the path if the path can be a secret. */
  readonly shownUrl: string
  readonly allowedCIDRs: readonly string[]
  readonly timeoutMs: number
  /** Active signing secrets. Each adds a signature. */
  readonly signingSecrets: readonly string[]
}

/** Parts of a request that its attempt's record keeps, since the event does not contain them. */
export type SentRequest = Pick<AttemptExchange, 'url' | 'signatures' | 'traceparent'>

/** `request` is undefined if the record of the attempt may not keep it. */
export interface SendResult {
  readonly result: CallResult
  readonly request: SentRequest | undefined
}

/** Destination with its decrypted settings, prepared once per version of its tenant. */
export interface PreparedDestination {
  /** False while a signing secret or the URL is missing. */
  readonly isSendable: boolean
  /** Calls the destination once, within its timeout. Repeated calls for an event carry the same id. Never rejects for a failed call. */
  send(
    outbound: Outbound,
    sending: {
      readonly content: EventContent
      readonly signal?: AbortSignal
      /** Start of the attempt, and time of its signature. */
      readonly nowMs: number
      /** Number of times that the event has been forwarded, including this time. */
      readonly hops: string
      readonly traceparent: string | undefined
    },
  ): Promise<SendResult>
}

/** Kind of destinations. Each kind has a folder, and an entry in `registry.ts`. */
export interface DestinationKind {
  prepare(settings: HttpSettings): PreparedDestination
}

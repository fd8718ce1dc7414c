import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { AttemptExchange, EventContent } from '#internal/events/index.ts'

/** Settings of a destination that is called by HTTP, with its secrets decrypted. */
export interface HttpSettings {
  /** Empty while a URL in a Secret is missing. */
  readonly url: string
  /** URL for records of attempts: without its path where that can be a secret. */
  readonly shownUrl: string
  readonly allowedCIDRs: readonly string[]
  readonly timeoutMs: number
  /** Active signing secrets. Each adds a signature. */
  readonly signingSecrets: readonly string[]
}

/** Properties of a request that neither the event nor the record of its attempt contains otherwise. */
export type SentRequest = Pick<AttemptExchange, 'url' | 'signatures' | 'traceparent'>

/** Result of a call, with what the record of its attempt keeps of the request; undefined where nothing may be kept. */
export interface Sent {
  readonly result: CallResult
  readonly request: SentRequest | undefined
}

/** A destination that can be called. Computed once per version of its tenant. */
export interface PreparedDestination {
  /** False while a signing secret or the URL is missing. */
  readonly isSendable: boolean
  /** Calls the destination once, within its timeout. Repeated calls for an event carry the same id. Never rejects for a failed call. */
  send(
    outbound: Outbound,
    sending: {
      readonly content: EventContent
      readonly signal?: AbortSignal
      /** Start of the attempt, which is the time of a signature, too. */
      readonly nowMs: number
      /** Number of times that the event has been forwarded, including this time. */
      readonly hops: string
      readonly traceparent: string | undefined
    },
  ): Promise<Sent>
}

/** Way of delivering events. A kind is a folder, and an entry of `registry.ts`. */
export interface DestinationKind {
  /** Computes what the calls of a destination share. */
  prepare(settings: HttpSettings): PreparedDestination
}

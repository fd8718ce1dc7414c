import type { ProviderName } from '#internal/tenants/index.ts'

/** The headers of a call; names in any case. A header that came several times reads as one value joined by ", ". */
export interface CallHeaders {
  get(name: string): string | null
}

/** What a tenant has set for a provider, beside its secrets. */
export interface ProviderSettings {
  readonly storefront?: { readonly shopDomain: string }
  readonly wallet?: { readonly webhookId: string; readonly environment: 'live' | 'sandbox' }
  readonly gateway?: { readonly publicKey: string }
}

/** A provider's call as its adapter sees it. */
export interface ProviderCall {
  /** The body's bytes exactly as received: signatures cover these and nothing else. */
  readonly body: Uint8Array
  readonly headers: CallHeaders
  readonly settings: ProviderSettings
  readonly nowMs: number
  /** How far a signed time may lie from `nowMs`, in both directions. */
  readonly signatureAgeMsMax: number
}

/**
 * Why a call is refused. The caller learns only `invalid signature` or its kin; the tenant sees this cause in its refused
 * calls. A closed set, since it is a label of metrics. `headers_conflict`: a neutral header and its vendor twin differ;
 * `body_ambiguous`: a name stands twice at the top level, and readers do not agree which of the two counts.
 */
export const refusalCauses = [
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'timestamp_outside_window',
  'scheme_unknown',
  'headers_conflict',
  'shop_mismatch',
  'body_not_json',
  'body_ambiguous',
  'event_id_missing',
  'event_id_malformed',
  'event_type_malformed',
] as const
/** One cause of a refusal. */
export type RefusalCause = (typeof refusalCauses)[number]

/** The verdict on a signature. */
export type Verification =
  | { readonly kind: 'verified' }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** A verified call, read: what all providers' events have in common. */
export interface ProviderEvent {
  readonly kind: 'event'
  /** The provider's own id of the event, 1 to 255 characters without control characters; duplicates share it. */
  readonly eventId: string
  /** The provider's own type, at most 255 characters. */
  readonly rawType: string
  /** The normalized type: dotted lowercase. */
  readonly type: string
  /** Milliseconds since the epoch, where the event says when it occurred. */
  readonly occurredAtMs: number | undefined
  /** The JSON object to forward, as received text. */
  readonly payload: string
}

/** What reading a verified call gives. */
export type Normalization = ProviderEvent | { readonly kind: 'refused'; readonly cause: RefusalCause }

/**
 * One provider: a folder of pure functions that know nothing of tenants, stores or servers. `Keys` is what `prepare` makes of
 * a tenant's secrets, once per change of them, so that a request does no work that could be done before.
 */
export interface Provider<Keys = unknown> {
  readonly name: ProviderName
  /** Largest body that is accepted, in bytes. */
  readonly bodyBytesMax: number
  /** Lowercase names of the headers that carry signatures or other credentials: they are never stored or forwarded. */
  readonly secretHeaders: readonly string[]
  /** @param secrets the live signing secrets, 1 to 5, without a trailing newline. Any match passes. */
  prepare(secrets: readonly string[]): Keys
  /** Checks the signature over the raw bytes, in constant time. Anything unknown or undecodable is refused, never thrown. */
  verify(call: ProviderCall, keys: Keys): Verification
  /** Reads a call that was verified. Never throws. */
  normalize(call: ProviderCall): Normalization
}

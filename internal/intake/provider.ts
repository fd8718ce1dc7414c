import type { X509Certificate } from 'node:crypto'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { SignerVerdict, TrustedSigner } from './certificate-chain.ts'

/** The headers of a call; names in any case. A header that came several times reads as one value joined by ", ". */
export interface CallHeaders {
  get(name: string): string | null
}

/** Which of a vendor's systems calls. */
export type VendorEnvironment = 'live' | 'sandbox'

/** What a tenant has set for a provider, beside its secrets. */
export interface ProviderSettings {
  readonly storefront?: { readonly shopDomain: string }
  readonly wallet?: { readonly webhookId: string; readonly environment: VendorEnvironment }
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
 * calls. A closed set, since it is a label of metrics. `headers_conflict`: a neutral header and its vendor twin differ,
 * or an unsigned header names another event than the signed body;
 * `body_too_deep`: nested deeper than `jsonDepthMax` levels; `body_ambiguous`: a name stands twice at the top level, and readers do
 * not agree which of the two counts.
 */
export const refusalCauses = [
  'signature_missing',
  'signature_malformed',
  'signature_mismatch',
  'timestamp_outside_window',
  'scheme_unknown',
  'headers_conflict',
  'shop_mismatch',
  'certificate_url_refused',
  'certificate_not_found',
  'certificate_untrusted',
  'certificate_weak',
  'certificate_subject_mismatch',
  'certificate_outside_dates',
  'body_not_json',
  'body_too_deep',
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

/** What the adapters of all providers have in common; `Keys` is what signatures are checked with. */
export interface Adapter<Keys> {
  readonly name: ProviderName
  /** Largest body that is accepted, in bytes. */
  readonly bodyBytesMax: number
  /** Lowercase names of the headers that carry signatures or other credentials: they are never stored or forwarded. */
  readonly secretHeaders: readonly string[]
  /** Checks the signature over the raw bytes, in constant time. Anything unknown or undecodable is refused, never thrown. */
  verify(call: ProviderCall, keys: Keys): Verification
  /** Reads a call that was verified. Never throws. */
  normalize(call: ProviderCall): Normalization
}

/**
 * One provider: a folder of pure functions that know nothing of tenants, stores or servers. `Keys` is what `prepare` makes of
 * a tenant's secrets, once per change of them, so that a request does no work that could be done before.
 */
export interface Provider<Keys = unknown> extends Adapter<Keys> {
  /** @param secrets the live signing secrets, 1 to 5, without a trailing newline. Any match passes. */
  prepare(secrets: readonly string[]): Keys
}

/** What a call's certificate is judged by. */
export interface SigningCertificate {
  /** PEM: the signer's own certificate first, then those between it and a root. */
  readonly chain: string
  /** What the chain has to lead to. */
  readonly roots: readonly X509Certificate[]
}

/** Where a call says that its certificate is; the caller decides whether that place may be asked. */
export type CertificateLocation =
  | { readonly kind: 'located'; readonly url: string; readonly environment: VendorEnvironment }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** A provider that signs with a certificate, which its caller fetches and hands in: the adapter itself reaches nobody. */
export interface CertificateProvider extends Adapter<TrustedSigner> {
  /** Where the certificate of a call is. Refuses what could not be verified whatever is there. Never throws. */
  locate(call: ProviderCall): CertificateLocation
  /** Judges a certificate that was found there, or any other that a call is to be checked with. Never throws. */
  trust(certificate: SigningCertificate): SignerVerdict
}

/** A provider of either kind. */
export type AnyProvider = Provider | CertificateProvider

import type { X509Certificate } from 'node:crypto'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { SignerVerdict, TrustedSigner } from './certificates/chain.ts'
import type { ProviderHeader } from './provider-header.ts'

/** Headers of a call; names in any case. Repeated headers read as one value joined by ", ". */
export interface CallHeaders {
  get(name: string): string | null
}

/** A vendor's live system or its sandbox. */
export type VendorEnvironment = 'live' | 'sandbox'

/** A tenant's settings for a provider, besides its secrets. */
export interface ProviderSettings {
  readonly storefront?: { readonly shopDomain: string }
  readonly wallet?: { readonly webhookId: string; readonly environment: VendorEnvironment }
  readonly gateway?: { readonly publicKey: string }
}

/** A provider's call as an adapter sees it. */
export interface ProviderCall {
  /** Bytes exactly as received: signatures cover these. */
  readonly body: Uint8Array
  readonly headers: CallHeaders
  readonly settings: ProviderSettings
  readonly nowMs: number
  /** Maximum distance of a signed time from `nowMs`, in both directions. */
  readonly signatureAgeMsMax: number
}

/**
 * Causes of refusing a call; a closed set, used as metric label. The caller learns only `invalid signature` or similar; the tenant
 * sees the cause in its refused calls. `headers_conflict`: a neutral header and its vendor twin differ, or an unsigned header
 * names another event than the signed body; `body_too_deep`: nested deeper than `jsonDepthMax` levels; `body_ambiguous`: a member
 * stands twice at the top level.
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
/** One of `refusalCauses`. */
export type RefusalCause = (typeof refusalCauses)[number]

/** Result of checking a signature. */
export type Verification =
  | { readonly kind: 'verified' }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** Content of a verified call, in the form that all providers share. */
export interface ProviderEvent {
  readonly kind: 'event'
  /** The provider's id, 1 to 255 characters without control characters; duplicates share it. */
  readonly eventId: string
  /** The provider's type, at most 255 characters. */
  readonly rawType: string
  /** Dotted lowercase. */
  readonly type: string
  /** Milliseconds since the epoch, if the event states it. */
  readonly occurredAtMs: number | undefined
  /** JSON object to forward, as received text. */
  readonly payload: string
}

/** Result of normalizing a verified call. */
export type Normalization = ProviderEvent | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** Common part of all adapters; `Keys` is the material that signatures are checked with. */
export interface Adapter<Keys> {
  readonly name: ProviderName
  readonly bodyBytesMax: number
  /** Headers that the adapter reads, for the public contract. */
  readonly headers: Readonly<Record<string, ProviderHeader>>
  /** Lowercase names of headers with signatures or credentials; never stored or forwarded. */
  readonly secretHeaders: readonly string[]
  /** Checks the signature over the raw bytes in constant time. Refuses anything unknown or undecodable; never throws. */
  verify(call: ProviderCall, keys: Keys): Verification
  /** Normalizes a verified call. Never throws. */
  normalize(call: ProviderCall): Normalization
}

/**
 * A provider that signs with secrets: a folder of pure functions that know no tenant, store or server. `Keys` is made by `prepare`
 * once per change of the secrets, so that requests do not repeat the work.
 */
export interface Provider<Keys = unknown> extends Adapter<Keys> {
  /** @param secrets 1 to 5 live signing secrets without trailing newline; any match verifies */
  prepare(secrets: readonly string[]): Keys
}

/** Address of a call's certificate, as the call states it; not allowed to be fetched yet. */
export type CertificateLocation =
  | { readonly kind: 'located'; readonly url: string; readonly environment: VendorEnvironment }
  | { readonly kind: 'refused'; readonly cause: RefusalCause }

/** A provider that signs with a certificate, which its caller fetches: an adapter makes no calls. */
export interface CertificateProvider extends Adapter<TrustedSigner> {
  /** Finds the address of a call's certificate. Refuses a call that no certificate could verify. Never throws. */
  locate(call: ProviderCall): CertificateLocation
  /**
   * Validates a certificate chain. Never throws.
   * @param chain PEM, the signer's certificate first
   */
  trust(chain: string, roots: readonly X509Certificate[]): SignerVerdict
}

/** A provider of either kind. */
export type AnyProvider = Provider | CertificateProvider

/** Verifies and normalizes a call: pure, and where the CPU time of a large body goes. Never throws. */
export function readCall<Keys>(provider: Adapter<Keys>, call: ProviderCall, keys: Keys): Normalization {
  const verification = provider.verify(call, keys)
  return verification.kind === 'refused' ? verification : provider.normalize(call)
}

import type { X509Certificate } from 'node:crypto'
import { type JsonObject } from '#internal/base/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import type { JsonSchema } from '#internal/http/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'

import type { TrustedSigner } from './vendor-keys/chain.ts'
import type { KeyLocation, PublishedKeys } from './vendor-keys/published-keys.ts'
import type { ParsedKeys } from './vendor-keys/store.ts'

/** Headers of a call. Names are case-insensitive. The values of a repeated header are joined by ", ". */
export interface CallHeaders {
  get(name: string): string | null
}

export type VendorEnvironment = 'live' | 'sandbox'

/** Settings of a tenant for a provider, without its secrets. */
export interface ProviderSettings {
  readonly storefront?: { readonly shopDomain: string }
  readonly wallet?: { readonly webhookId: string; readonly environment: VendorEnvironment }
  readonly gateway?: { readonly publicKey: string }
}

/** Request line of a call, for vendors that sign it. */
export interface CallRequest {
  readonly method: string
  /** URL as the vendor calls it, with scheme, host and query. */
  readonly url: string
}

/** Call of a provider as its adapter receives it. */
export interface ProviderCall {
  /** Set if the adapter needs it; without it, signatures over method or URL are refused. */
  readonly request?: CallRequest
  /** Exactly as received, since the signature covers the bytes. */
  readonly body: Uint8Array
  readonly headers: CallHeaders
  readonly settings: ProviderSettings
  readonly nowMs: number
  /** Keys at the place that `locate` returned. */
  readonly published?: PublishedKeys | undefined
  /** Maximum difference between a signed time and `nowMs`, in both directions. */
  readonly signatureAgeMsMax: number
}

/**
 * Causes of refusing a call; a closed set, used as metric label. The caller receives only a text such as `invalid signature`; the tenant
 * sees the cause. `headers_conflict`: a neutral header and the vendor's header differ, or an unsigned header names a different event than
 * the signed body. `body_too_deep`: over `jsonDepthMax` levels. `body_ambiguous`: a member is repeated at the top level.
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

/** Refusal of a call or of one of its values. */
export interface Refused {
  readonly kind: 'refused'
  readonly cause: RefusalCause
}

export function refused(cause: RefusalCause): Refused {
  return { kind: 'refused', cause }
}

export type Verification = { readonly kind: 'verified' } | Refused

/**
 * `sourceEventId`: 1 to 255 characters without control characters, equal for duplicates. `rawType`: at most 255 characters. `type`: dotted
 * lowercase. `payload`: as received.
 */
export interface ProviderEvent extends Pick<ReceivedEvent, 'sourceEventId' | 'rawType' | 'type' | 'payload'> {
  readonly kind: 'event'
  /** Undefined if the event does not state its time. */
  readonly occurredAtMs: number | undefined
}

/** Call in the vendor's format without its signature. */
export interface UnsignedCall {
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/** Answer to a handshake, with `X-Content-Type-Options: nosniff`. */
export interface HandshakeAnswer {
  readonly kind: 'answer'
  readonly status: 200 | 204
  readonly headers?: Readonly<Record<string, string>> | undefined
  /** `text/plain` unless the vendor requires JSON, so that no browser executes a text that a caller sent and the answer repeats. */
  readonly contentType: 'text/plain; charset=utf-8' | 'application/json'
  readonly body: string
}

/** Answers to calls by which a vendor checks the URL. */
export interface Handshakes<Keys = unknown> {
  readonly methods: ReadonlySet<string>
  /** Returns undefined for a call that is no handshake. Never throws. */
  answer(call: ProviderCall, keys: Keys): HandshakeAnswer | Refused | undefined
}

/** Functions of a provider. `Keys` is the type of its keys, with which signatures are checked. */
export interface Adapter<Keys> {
  readonly name: ProviderName
  readonly bodyBytesMax: number
  /** Listed in the public API contract. */
  readonly headers: Readonly<Record<string, ProviderHeader>>
  /** Responses that the vendor demands. Default: 400 for a refused signature, and JSON bodies. */
  readonly answers?:
    | {
        readonly refusedStatus?: 401 | 403 | undefined
        /** Whether responses to accepted calls and to refused signatures have no body. */
        readonly isEmpty?: boolean | undefined
      }
    | undefined
  /** Lowercase names of headers with signatures or credentials; never stored or forwarded. */
  readonly secretHeaders: readonly string[]
  /** Checks the signature over the raw bytes in constant time. Refuses any call that it cannot decode or does not know. Never throws. */
  verify(call: ProviderCall, keys: Keys): Verification
  /** Normalizes a verified call. Never throws. */
  normalize(call: ProviderCall): ProviderEvent | Refused
  /** Writes an event as the vendor does. Undefined if events of the provider cannot be simulated. */
  readonly write?: (
    event: {
      readonly id: string
      readonly rawType: string
      /** Payload in the vendor's shape. */
      readonly payload: JsonObject
      readonly occurredAtMs: number
    },
    settings: ProviderSettings,
  ) => UnsignedCall
}

/** Provider that signs with secrets. Its functions are pure. `prepare` creates `Keys` once per change of the secrets, not per request. */
export interface Provider<Keys = unknown> extends Adapter<Keys> {
  /** @param secrets 1 to 5 active signing secrets without a trailing newline. A signature by any of them is valid */
  prepare(secrets: readonly string[]): Keys
  /**
   * Finds the published keys of a call, which the caller fetches into `published`. Undefined if the vendor publishes none. Refuses a call
   * that no key can verify. Never throws.
   */
  locate?(call: ProviderCall, keys: Keys): KeyLocation | Refused | undefined
  /** Returns the address that confirms a subscription for which a verified call asks. Such a call makes no event. Never throws. */
  confirmationUrl?(call: ProviderCall): string | undefined
  /** Absent for a vendor that does not check URLs. */
  readonly handshakes?: Handshakes<Keys>
  /** Signs a simulated call and returns the headers with the signature. Undefined if events of the provider cannot be simulated. */
  readonly sign?: (call: UnsignedCall, secret: string, atMs: number) => Readonly<Record<string, string>>
}

/** Provider that signs with a certificate. The caller fetches it, since an adapter makes no network calls. */
export interface CertificateProvider extends Adapter<TrustedSigner> {
  /**
   * Finds the certificate's address. Callers must check it before they fetch. Refuses a call that no certificate can verify. Never throws.
   */
  locate(
    call: ProviderCall,
  ): { readonly kind: 'located'; readonly url: string; readonly environment: VendorEnvironment } | Refused
  /** Never throws. @param chain PEM, the signer's certificate first */
  trust(chain: string, roots: readonly X509Certificate[]): ParsedKeys<TrustedSigner>
}

/** Provider that signs with secrets or with a certificate. */
export type AnyProvider = Provider | CertificateProvider

/** Header of a provider's calls. A call can use any of its names. If it uses several, their values must be equal. */
export interface ProviderHeader {
  /** Neutral name first, then the vendor's names. */
  readonly names: readonly string[]
  /** Description in the public API contract. */
  readonly description: string
  /** Schema in the public API contract. Adapters also check the value and refuse malformed values with a cause. */
  readonly schema: JsonSchema
}

/** Declares a header, which the public API contract lists. */
export function header(
  names: readonly string[],
  description: string,
  schema: JsonSchema = { type: 'string', minLength: 1, maxLength: 255 },
): ProviderHeader {
  return { names, description, schema }
}

export const eventIdSchema: JsonSchema = {
  type: 'string',
  minLength: 1,
  maxLength: 255,
  pattern: '^[^\\x00-\\x20,\\x7f\\xa0]+$',
}

export function lowerNames(...headers: readonly Pick<ProviderHeader, 'names'>[]): string[] {
  return headers.flatMap(({ names }) => names.map((name) => name.toLowerCase()))
}

export function jsonCall(body: JsonObject, headers: Readonly<Record<string, string>> = {}): UnsignedCall {
  return {
    body: Buffer.from(JSON.stringify(body)),
    headers: { 'content-type': 'application/json', ...headers },
  }
}

import type { AnyProvider, ProviderCall, ProviderSettings, Verification } from '../provider.ts'

/** A call before it is signed. Names of headers are neutral and in lower case. */
export interface UnsignedCall {
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/**
 * Describes one way in which a vendor writes and signs calls, for the shared suite. Used by tests only.
 * Signs independently of the adapter's functions, so that a bug there is not repeated here.
 */
export interface ConformanceKit {
  /** Distinguishes several kits of a provider. */
  readonly title: string
  readonly provider: AnyProvider
  /** Five secrets in the vendor's form; names of keys for certificates. */
  readonly secrets: readonly [string, string, string, string, string]
  readonly settings: ProviderSettings
  /** Writes a call as the vendor does; omits an id of undefined. */
  compose(event: { readonly eventId: string | undefined; readonly type: string }): UnsignedCall
  /** Verifies with some of the secrets, if the adapter does not derive its keys from them. */
  verify?(call: ProviderCall, secrets: readonly string[]): Verification
  /** Only one secret at a time signs for a tenant. */
  readonly alone?: true
  /** Returns all headers of the signed call. */
  sign(call: UnsignedCall, secret: string, nowMs: number): Readonly<Record<string, string>>
  /** Adds the signature to the body, if it belongs there. */
  seal?(body: Uint8Array, secret: string): Uint8Array
  /** Undefined if the body contains the signature; its form is then tested by the provider's own test. */
  readonly signatureHeader: string | undefined
  /** Returns the payload of a composed body, if it is neither the body nor its form field `payload`. */
  payloadOf?(body: Uint8Array): string
  /** The vendor sends no event id; the adapter derives one from the signed bytes. */
  readonly ownIds?: true
  /** Header with the event's id; undefined if the body has it. */
  readonly idHeader: string | undefined
  /** Names of each header with twins, the neutral one first. */
  readonly twins: readonly (readonly string[])[]
  /** Whether a time is signed. */
  readonly timed: boolean
  /** Maximum age of that time, if it differs from the maximum ahead. */
  readonly pastMsMax?: number
  /** Whether the digest is hex; otherwise base64. */
  readonly hex: boolean
  /** Signature headers in schemes that are refused. */
  readonly otherSchemes: readonly string[]
}

import type {
  AnyProvider,
  ProviderCall,
  ProviderSettings,
  UnsignedCall,
  Verification,
} from '#internal/providers/provider.ts'

/**
 * Describes one format in which a vendor writes and signs calls, for the shared test suite. Signs independently of the adapter's functions,
 * so that it does not repeat their bugs.
 */
export interface ConformanceKit {
  /** Name of the kit in test names. A provider can have several kits. */
  readonly title: string
  readonly provider: AnyProvider
  /** Five secrets in the vendor's format; for certificates, names of keys. */
  readonly secrets: readonly [string, string, string, string, string]
  readonly settings: ProviderSettings
  /** Writes a call as the vendor does. Omits the id if `eventId` is undefined. */
  compose(event: { readonly eventId: string | undefined; readonly type: string }): UnsignedCall
  /** Verifies a call with some of the secrets, for providers whose keys are not derived from secrets. */
  verify?(call: ProviderCall, secrets: readonly string[]): Verification
  /** Set if only one secret at a time can sign for a tenant. */
  readonly alone?: true
  /** Returns all headers of the signed call. */
  sign(call: UnsignedCall, secret: string, nowMs: number): Readonly<Record<string, string>>
  /** Adds the signature to the body, for providers whose signature is in the body. */
  seal?(body: Uint8Array, secret: string): Uint8Array
  /** Name of the signature header; undefined if the body contains the signature, whose format the provider's own test covers. */
  readonly signatureHeader: string | undefined
  /** Returns the payload of a composed body, if the payload is neither the body nor its form field `payload`. */
  payloadOf?(body: Uint8Array): string
  /** Set if the vendor sends no event id and the adapter derives the id from the signed bytes. */
  readonly ownIds?: true
  /** Header with the event id; undefined if the body contains the id. */
  readonly idHeader: string | undefined
  /** Names of each header that has several names, the neutral name first. */
  readonly twins: readonly (readonly string[])[]
  /** True if the signature covers a time. */
  readonly timed: boolean
  /** Maximum age of the signed time in milliseconds, if it differs from the maximum in the future. */
  readonly pastMsMax?: number
  /** True if the digest is hex; false if it is base64. */
  readonly hex: boolean
  /** Signature headers in other schemes, which the adapter refuses. */
  readonly otherSchemes: readonly string[]
}

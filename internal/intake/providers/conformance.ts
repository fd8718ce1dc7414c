import type { AnyProvider, ProviderCall, ProviderSettings, Verification } from '../provider.ts'

/** A call before it is signed. Names of headers are neutral and in lower case. */
export interface UnsignedCall {
  readonly body: Uint8Array
  readonly headers: Readonly<Record<string, string>>
}

/**
 * What the shared suite has to know of one way to call a provider: how its vendor writes and signs a call. Only tests use it.
 * It signs by itself, not by the adapter's own pieces, so that a mistake there is not made twice.
 */
export interface ConformanceKit {
  /** Names the way, where a provider has several. */
  readonly title: string
  readonly provider: AnyProvider
  /** Five secrets in the form that the vendor issues; names of keys where it signs with certificates. */
  readonly secrets: readonly [string, string, string, string, string]
  readonly settings: ProviderSettings
  /** Writes a call as the vendor does; an id of undefined is left out. */
  compose(event: { readonly eventId: string | undefined; readonly type: string }): UnsignedCall
  /** Verifies under some of the secrets, where the adapter does not make its keys of them. */
  verify?(call: ProviderCall, secrets: readonly string[]): Verification
  /** Only one secret at a time signs for a tenant. */
  readonly alone?: true
  /** All headers of the signed call. */
  sign(call: UnsignedCall, secret: string, nowMs: number): Readonly<Record<string, string>>
  /** Puts the signature into the body, where that is its place. */
  seal?(body: Uint8Array, secret: string): Uint8Array
  /** Undefined where the body has the signature: its form is then for the provider's own test. */
  readonly signatureHeader: string | undefined
  /** The payload of a composed body, where it is neither the body nor the form's field `payload`. */
  payloadOf?(body: Uint8Array): string
  /** Events have no id of the vendor's: it is made of what was signed. */
  readonly ownIds?: true
  /** The header that carries the event's id; undefined where the body does. */
  readonly idHeader: string | undefined
  /** Each header that has twins, with all of its names, the neutral one first. */
  readonly twins: readonly (readonly string[])[]
  /** Whether the time is part of what is signed. */
  readonly timed: boolean
  /** How far that time may lie back, where it is not as far as it may lie ahead. */
  readonly pastMsMax?: number
  /** Whether the digest is written in hex; in base64 otherwise. */
  readonly hex: boolean
  /** Values of the signature's header in schemes that are not accepted. */
  readonly otherSchemes: readonly string[]
}

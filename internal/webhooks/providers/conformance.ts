import type { Provider, ProviderSettings } from '../provider.ts'

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
  readonly provider: Provider
  /** Five secrets in the form that the vendor issues. */
  readonly secrets: readonly [string, string, string, string, string]
  readonly settings: ProviderSettings
  /** Writes a call as the vendor does; an id of undefined is left out. */
  compose(event: { readonly eventId: string | undefined; readonly type: string }): UnsignedCall
  /** All headers of the signed call. */
  sign(call: UnsignedCall, secret: string, nowMs: number): Readonly<Record<string, string>>
  readonly signatureHeader: string
  /** The header that carries the event's id; undefined where the body does. */
  readonly idHeader: string | undefined
  /** Each header that has twins, with all of its names, the neutral one first. */
  readonly twins: readonly (readonly string[])[]
  /** Whether the time is part of what is signed. */
  readonly timed: boolean
  /** Whether the digest is written in hex; in base64 otherwise. */
  readonly hex: boolean
  /** Values of the signature's header in schemes that are not accepted. */
  readonly otherSchemes: readonly string[]
}

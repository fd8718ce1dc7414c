import type { Signature } from './signature.ts'

/** One call that the sink has received. Texts are as they came: whoever shows them escapes them. */
export interface Delivery {
  /** Counts from 1 since the start. */
  readonly number: number
  readonly receivedAtMs: number
  /** Path and query. */
  readonly path: string
  /** '' where the header is absent. */
  readonly webhookId: string
  /** How many times this webhook-id has come, this time included. */
  readonly attempt: number
  /** The slug of the tenant whose id the body names; '' where no such tenant is in force. The next four likewise. */
  readonly tenant: string
  readonly provider: string
  readonly type: string
  readonly eventId: string
  readonly signature: Signature
  /** The status of our answer. */
  readonly status: number
  readonly headers: readonly (readonly [name: string, value: string])[]
  readonly bodyBytes: number
  /** The beginning, at most `bodyKeptBytesMax` bytes of it. */
  readonly body: string
  readonly isJson: boolean
}

/** How much of a body is kept and shown. */
export const bodyKeptBytesMax = 256 * 1024

import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

/** A signing key ready for use; shows nothing of itself in logs. */
export type SigningKey = KeyObject & { readonly __brand: 'SigningKey' }

/** What is signed. */
export interface SignedMessage {
  /** Value of `webhook-id`; without a dot, which would be taken for its end. */
  readonly id: string
  /** Value of `webhook-timestamp`: seconds since 1970, whole. */
  readonly timestampSeconds: number
  /** The body, byte for byte as it is sent. */
  readonly body: string | Uint8Array
}

/** Sizes that Standard Webhooks allows (https://github.com/standard-webhooks/standard-webhooks, spec, read 2026-11). */
const keyBytesMin = 24
const keyBytesMax = 64

/** Reads a secret `whsec_<base64 of 24–64 bytes>`; undefined when it is none. Prepare keys once, not per message. */
export function prepareSigningKey(secret: string): SigningKey | undefined {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.length < keyBytesMin || bytes.length > keyBytesMax) return undefined
  return createSecretKey(bytes) as SigningKey
}

/**
 * The value of `webhook-signature` by Standard Webhooks: `v1,<base64 of HMAC-SHA256 over id.timestamp.body>`, once for each key,
 * separated by spaces, so that a receiver that knows any one of them accepts.
 */
export function signStandardWebhook(message: SignedMessage, keys: readonly SigningKey[]): string {
  const start = `${message.id}.${message.timestampSeconds}.`
  return keys
    .map((key) => `v1,${createHmac('sha256', key).update(start).update(message.body).digest('base64')}`)
    .join(' ')
}

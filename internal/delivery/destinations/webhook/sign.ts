import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'

/** Signing key of a webhook. Logs cannot contain its bytes. */
export type SigningKey = KeyObject & { readonly __brand: 'SigningKey' }

/**
 * Minimum and maximum key length in bytes, as Standard Webhooks specifies (https://github.com/standard-webhooks/standard-webhooks, spec,
 * read 2026-11).
 */
const keyBytesMin = 24
const keyBytesMax = 64

/** Parses a secret `whsec_<base64 of 24–64 bytes>`; undefined for any other text. Parse each secret once, not once per message. */
export function prepareSigningKey(secret: string): SigningKey | undefined {
  const encoded = /^whsec_([A-Za-z0-9+/]+={0,2})$/.exec(secret)?.[1]
  if (encoded === undefined) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  if (bytes.length < keyBytesMin || bytes.length > keyBytesMax) return undefined
  return createSecretKey(bytes) as SigningKey
}

/**
 * Returns the value of `webhook-signature` by Standard Webhooks: `v1,<base64 of HMAC-SHA256 over id.timestamp.body>` for each key,
 * separated by spaces. A receiver that knows any of the keys accepts the message.
 */
export function signStandardWebhook(
  message: {
    /** Value of `webhook-id`. It must not contain a dot, which separates the parts of the signed text. */
    readonly id: string
    /** Value of `webhook-timestamp`: whole seconds since 1970. */
    readonly timestampSeconds: number
    /** Body, byte for byte as it is sent. */
    readonly body: string | Uint8Array
  },
  keys: readonly SigningKey[],
): string {
  const start = `${message.id}.${message.timestampSeconds}.`
  return keys
    .map((key) => `v1,${createHmac('sha256', key).update(start).update(message.body).digest('base64')}`)
    .join(' ')
}

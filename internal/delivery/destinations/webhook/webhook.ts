import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import { type EventContent, hopsHeader } from '#internal/events/index.ts'
import type { DestinationKind, HttpSettings } from '../destination.ts'

/** HTTP calls with the event as JSON, signed as Standard Webhooks specifies. */
export const webhook: DestinationKind = {
  prepare(settings) {
    const keys = settings.signingSecrets.flatMap((secret) => prepareSigningKey(secret) ?? [])
    const { shownUrl } = settings
    return {
      isSendable: settings.url !== '' && keys.length > 0,
      async send(outbound, { content, signal, nowMs, hops, traceparent }) {
        const call = signedCall({ ...settings, keys }, content, { hops, traceparent, nowMs })
        const result = await outbound.send({ ...call, ...(signal && { signal }) })
        return { result, request: { url: shownUrl, signatures: keys.length, traceparent } }
      },
    }
  },
}

/** Returns the signed request to a tenant's callback. */
export function signedCall(
  {
    url,
    allowedCIDRs,
    timeoutMs,
    keys,
  }: Pick<HttpSettings, 'url' | 'allowedCIDRs' | 'timeoutMs'> & { readonly keys: readonly SigningKey[] },
  event: EventContent,
  { hops, traceparent, nowMs }: CarriedHeaders & { readonly nowMs: number },
) {
  const { id } = event
  const body = forwardedEvent(event)
  const timestampSeconds = Math.floor(nowMs / 1000)
  return {
    url,
    allowedCIDRs,
    timeoutMs,
    body,
    headers: callHeaders({
      id,
      timestampSeconds,
      hops,
      traceparent,
      signature: signStandardWebhook({ id, timestampSeconds, body }, keys),
    }),
  }
}

interface CallHeaders extends CarriedHeaders {
  readonly id: string
  readonly timestampSeconds: number
  readonly signature: string
}

/** Returns the headers of a call. They are also computed for past attempts, so a change here needs a member in the attempts' records. */
export function callHeaders({ id, timestampSeconds, signature, hops, traceparent }: CallHeaders) {
  return {
    'content-type': 'application/json',
    'user-agent': 'Latchkey',
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature,
    [hopsHeader]: hops,
    ...(traceparent !== undefined && { traceparent }),
  }
}

/** Converts a stored event to its forwarded form. `headers` is JSON text. */
export function forwardedOf<Event extends { readonly providerRawType: string }>({
  event,
  headers,
}: {
  readonly event: Event
  readonly headers: string
}): Event & { readonly rawType: string; readonly headers: string } {
  return { ...event, rawType: event.providerRawType, headers }
}

/** Builds the JSON text that callbacks receive. Payload and headers are inserted as received; an expired payload is null. */
export function forwardedEvent({
  payload = 'null',
  ...event
}: Omit<EventContent, 'payload' | 'provider'> & {
  readonly provider: string
  readonly payload?: string
}): string {
  const { id, tenantId, provider, rawType, type, occurredAtMs, receivedAtMs, headers } = event
  return (
    `{"id":"${id}","provider":${JSON.stringify(provider)},"providerRawType":${JSON.stringify(rawType)}` +
    `,"type":${JSON.stringify(type)},"tenantId":"${tenantId}","occurredAt":"${new Date(occurredAtMs).toISOString()}"` +
    `,"receivedAt":"${new Date(receivedAtMs).toISOString()}","payload":${payload},"headers":${headers}}`
  )
}

/** Headers of the provider's call that are sent to the callback as request headers. */
export interface CarriedHeaders {
  /** Number of times that the event has been forwarded, including this time. */
  readonly hops: string
  readonly traceparent: string | undefined
}

const hopsMember = new RegExp(`"${hopsHeader}":"(\\d{1,3})"`)

/** Finds headers in JSON text without parsing the text. Quotation marks in JSON strings are escaped, so no value can look like a member. */
export function carriedHeaders(headers: string): CarriedHeaders {
  return {
    hops: hopsMember.exec(headers)?.[1] ?? '1',
    traceparent: /"traceparent":"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"/.exec(headers)?.[1],
  }
}

/** Signing key of a webhook. Logs cannot contain its bytes. */
export type SigningKey = KeyObject & { readonly __brand: 'SigningKey' }

/** Bounds of a key in bytes by Standard Webhooks (https://github.com/standard-webhooks/standard-webhooks, spec, read 2026-11). */
const keyBytesMin = 24
const keyBytesMax = 64

/** Parses `whsec_<base64 of 24–64 bytes>`; undefined for any other text. Parse each secret once, not once per message. */
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
    /** Whole seconds since 1970. */
    readonly timestampSeconds: number
    /** Body, byte for byte as sent. */
    readonly body: string | Uint8Array
  },
  keys: readonly SigningKey[],
): string {
  const start = `${message.id}.${message.timestampSeconds}.`
  return keys
    .map((key) => `v1,${createHmac('sha256', key).update(start).update(message.body).digest('base64')}`)
    .join(' ')
}

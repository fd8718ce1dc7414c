import { createHmac, createSecretKey, type KeyObject } from 'node:crypto'
import type { Clock } from '#internal/base/index.ts'
import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { EventContent } from '#internal/events/index.ts'
import type { Tracing } from '#internal/telemetry/index.ts'
import type { PreparedTenant } from './prepared-tenant.ts'

/** Dependencies of `sendDelivery`. */
export interface SendParts {
  readonly outbound: Outbound
  readonly tracing: Tracing
  readonly clock: Clock
}

/** Input of one delivery attempt. */
export interface Sending {
  readonly content: EventContent
  readonly tenant: PreparedTenant
  readonly signal: AbortSignal
}

/**
 * Calls the callback once within the tenant's timeout, signed as Standard Webhooks specifies. Repeated calls for an event have the same
 * `webhook-id`.
 */
export function sendDelivery(
  { outbound, tracing, clock }: SendParts,
  { content, tenant, signal }: Sending,
): Promise<CallResult> {
  const carried = carriedHeaders(content.headers)
  const send = (traceparent = carried.traceparent) =>
    outbound.send({ ...signedCall(tenant, content, { ...carried, traceparent, nowMs: clock.now() }), signal })
  if (!tracing.enabled) return send()
  const options = {
    kind: 'client' as const,
    traceparent: carried.traceparent ?? null,
    attributes: { 'latchkey.provider': content.provider, 'latchkey.type': content.type },
  }
  return tracing.span('deliver', options, async (span) => {
    const result = await send(tracing.traceparent())
    if (result.kind === 'failed') span.fail(result.cause)
    else span.set({ 'http.response.status_code': result.status })
    return result
  })
}

/** Returns the signed request to a tenant's callback. */
export function signedCall(
  { url, allowedCIDRs, timeoutMs, keys }: Pick<PreparedTenant, 'url' | 'allowedCIDRs' | 'timeoutMs' | 'keys'>,
  event: EventContent,
  { hops, traceparent, nowMs }: CarriedHeaders & { readonly nowMs: number },
) {
  const { id } = event
  const body = forwardedEvent(event)
  const timestampSeconds = Math.floor(nowMs / 1000)
  return {
    ...{ url, allowedCIDRs, timeoutMs, body },
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Latchkey',
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signStandardWebhook({ id, timestampSeconds, body }, keys),
      'latchkey-hops': hops,
      ...(traceparent !== undefined && { traceparent }),
    },
  }
}

/** An event to write, whose payload can have expired. */
export type ForwardedEvent = Omit<EventContent, 'payload'> & Partial<Pick<EventContent, 'payload'>>

/** Builds the JSON text that callbacks receive. Payload and headers are inserted as they were received; a payload that has expired is null. */
export function forwardedEvent({ payload = 'null', ...event }: ForwardedEvent): string {
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

/**
 * Finds the headers of `CarriedHeaders` in the stored JSON text without parsing it. Quotation marks inside a JSON string are escaped, so no
 * header value can look like a member.
 */
export function carriedHeaders(headers: string): CarriedHeaders {
  return {
    hops: /"latchkey-hops":"(\d{1,3})"/.exec(headers)?.[1] ?? '1',
    traceparent: /"traceparent":"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"/.exec(headers)?.[1],
  }
}

/** Signing key of a callback. Logs cannot contain its bytes. */
export type SigningKey = KeyObject & { readonly __brand: 'SigningKey' }

/** Message to be signed. */
export interface SignedMessage {
  /** Value of `webhook-id`. It must not contain a dot, which separates the parts of the signed text. */
  readonly id: string
  /** Value of `webhook-timestamp`: whole seconds since 1970. */
  readonly timestampSeconds: number
  /** Body, byte for byte as it is sent. */
  readonly body: string | Uint8Array
}

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
export function signStandardWebhook(message: SignedMessage, keys: readonly SigningKey[]): string {
  const start = `${message.id}.${message.timestampSeconds}.`
  return keys
    .map((key) => `v1,${createHmac('sha256', key).update(start).update(message.body).digest('base64')}`)
    .join(' ')
}

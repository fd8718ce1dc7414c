import { checkCallbackUrl, type HeaderLine, requestHeaders } from '#internal/egress/index.ts'
import type { AttemptExchange, EventContent } from '#internal/events/index.ts'
import { hiddenMark } from '#internal/redaction/index.ts'
import type { DestinationKind, HttpSettings } from '../destination.ts'
import {
  type CarriedHeaders,
  carriedHeaders,
  type ForwardedEvent,
  forwardedEvent,
} from './forwarded-event.ts'
import { prepareSigningKey, type SigningKey, signStandardWebhook } from './sign.ts'

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

/** Returns the headers of a call. Those of past attempts are shown by this function, so a change here needs a member of their records. */
function callHeaders({ id, timestampSeconds, signature, hops, traceparent }: CallHeaders) {
  return {
    'content-type': 'application/json',
    'user-agent': 'Latchkey',
    'webhook-id': id,
    'webhook-timestamp': String(timestampSeconds),
    'webhook-signature': signature,
    'latchkey-hops': hops,
    ...(traceparent !== undefined && { traceparent }),
  }
}

/** Request of a past attempt without its body. */
export interface PastRequest {
  readonly method: 'POST'
  readonly url: string
  /** All headers in the order in which they were sent. Each signature is `v1,[redacted]`. */
  readonly headers: readonly HeaderLine[]
  readonly bodyBytes: number
}

/**
 * Returns a function that gives the request of an attempt of an event as it was sent, except for its signatures, which are not kept. What all
 * attempts share is computed once.
 */
export function pastRequestsOf(
  event: Omit<ForwardedEvent, 'payload'> & { readonly payloadBytes: number },
): (attempt: { readonly startedAtMs: number; readonly exchange: AttemptExchange }) => PastRequest {
  const { hops } = carriedHeaders(event.headers)
  const bodyBytes = Buffer.byteLength(forwardedEvent({ ...event, payload: '' })) + event.payloadBytes
  return ({ startedAtMs, exchange: { url, signatures, traceparent } }) => {
    const checked = checkCallbackUrl(url)
    const authority = checked.kind === 'callback' ? checked.url.authority : ''
    const timestampSeconds = Math.floor(startedAtMs / 1000)
    const signature = Array.from({ length: signatures }, () => `v1,${hiddenMark}`).join(' ')
    const given = callHeaders({ id: event.id, timestampSeconds, signature, hops, traceparent })
    return { method: 'POST', url, headers: requestHeaders({ authority }, given, bodyBytes), bodyBytes }
  }
}

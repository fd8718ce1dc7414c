import type { Clock } from '#internal/base/index.ts'
import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { ClaimedDelivery, EventContent } from '#internal/events/index.ts'
import type { Tracing } from '#internal/telemetry/index.ts'
import { carriedHeaders, forwardedEvent } from './forwarded-event.ts'
import type { PreparedTenant } from './prepared-tenant.ts'
import { signStandardWebhook } from './sign.ts'

/** What sending works with. */
export interface SendParts {
  readonly outbound: Outbound
  readonly tracing: Tracing
  readonly clock: Clock
}

/** One delivery with everything that goes out. */
export interface Sending {
  readonly delivery: ClaimedDelivery
  readonly content: EventContent
  readonly tenant: PreparedTenant
  readonly signal: AbortSignal
}

/**
 * Brings an event to its callback once, signed by Standard Webhooks. Never throws; takes the tenant's time at most. Repeating it
 * is another attempt under the same `webhook-id`.
 */
export function sendDelivery(parts: SendParts, sending: Sending): Promise<CallResult> {
  const carried = carriedHeaders(sending.content.headers)
  if (!parts.tracing.enabled) return call(parts, sending, { ...carried })
  const { provider, type } = sending.content
  const options = {
    kind: 'client' as const,
    traceparent: carried.traceparent ?? null,
    attributes: { 'latchkey.provider': provider, 'latchkey.type': type },
  }
  return parts.tracing.span('deliver', options, async (span) => {
    const traceparent = parts.tracing.traceparent() ?? carried.traceparent
    const result = await call(parts, sending, { hops: carried.hops, traceparent })
    if (result.kind === 'failed') span.fail(result.cause)
    else span.set({ 'http.response.status_code': result.status })
    return result
  })
}

function call(
  { outbound, clock }: SendParts,
  { delivery, content, tenant, signal }: Sending,
  { hops, traceparent }: { hops: string; traceparent: string | undefined },
): Promise<CallResult> {
  const body = forwardedEvent(delivery, content)
  const id = delivery.eventId
  const timestampSeconds = Math.floor(clock.now() / 1000)
  return outbound.send({
    url: tenant.url,
    allowedCIDRs: tenant.allowedCIDRs,
    timeoutMs: tenant.timeoutMs,
    signal,
    body,
    headers: {
      'content-type': 'application/json',
      'user-agent': 'Latchkey',
      'webhook-id': id,
      'webhook-timestamp': String(timestampSeconds),
      'webhook-signature': signStandardWebhook({ id, timestampSeconds, body }, tenant.keys),
      'latchkey-hops': hops,
      ...(traceparent !== undefined && { traceparent }),
    },
  })
}

import type { Outbound } from '#internal/egress/index.ts'
import type { EventContent } from '#internal/events/index.ts'
import type { Tracing } from '#internal/telemetry/index.ts'
import type { PreparedDestination, Sent } from './destinations/destination.ts'
import { carriedHeaders } from './destinations/webhook/forwarded-event.ts'

/** Dependencies of `sendDelivery`. */
export interface SendParts {
  readonly outbound: Outbound
  readonly tracing: Tracing
}

/** Calls a destination once, in a span that continues the trace of the provider's call. */
export function sendDelivery(
  { outbound, tracing }: SendParts,
  destination: PreparedDestination,
  sending: { readonly content: EventContent; readonly signal: AbortSignal; readonly nowMs: number },
): Promise<Sent> {
  const { content } = sending
  const carried = carriedHeaders(content.headers)
  if (!tracing.enabled) return destination.send(outbound, { ...sending, ...carried })
  const options = {
    kind: 'client' as const,
    traceparent: carried.traceparent ?? null,
    attributes: { 'latchkey.provider': content.provider, 'latchkey.type': content.type },
  }
  return tracing.span('deliver', options, async (span) => {
    const sent = await destination.send(outbound, {
      ...sending,
      ...carried,
      traceparent: tracing.traceparent() ?? carried.traceparent,
    })
    const { result } = sent
    if (result.kind === 'failed') span.fail(result.cause)
    else span.set({ 'http.response.status_code': result.status })
    return sent
  })
}

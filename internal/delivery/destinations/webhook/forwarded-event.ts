import type { EventContent } from '#internal/events/index.ts'

/** An event to write, whose payload can have expired. */
export type ForwardedEvent = Omit<EventContent, 'payload' | 'provider'> &
  Partial<Pick<EventContent, 'payload'>> & { readonly provider: string }

/** Returns a stored event in the form in which it is forwarded. @param view with headers as JSON text */
export function forwardedOf<Event extends { readonly providerRawType: string }>({
  event,
  headers,
}: {
  readonly event: Event
  readonly headers: string
}): Event & { readonly rawType: string; readonly headers: string } {
  return { ...event, rawType: event.providerRawType, headers }
}

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

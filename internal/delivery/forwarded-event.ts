import type { TenantId } from '#internal/base/index.ts'
import type { EventContent } from '#internal/events/index.ts'

/** The event as callbacks get it, JSON text. Payload and headers stand in it as they were received. */
export function forwardedEvent(
  { eventId, tenantId }: { readonly eventId: string; readonly tenantId: TenantId },
  content: EventContent,
): string {
  const { provider, rawType, type, occurredAtMs, receivedAtMs, payload, headers } = content
  return (
    `{"id":"${eventId}","provider":${JSON.stringify(provider)},"providerRawType":${JSON.stringify(rawType)}` +
    `,"type":${JSON.stringify(type)},"tenantId":"${tenantId}","occurredAt":"${new Date(occurredAtMs).toISOString()}"` +
    `,"receivedAt":"${new Date(receivedAtMs).toISOString()}","payload":${payload},"headers":${headers}}`
  )
}

/** Headers of the provider's call that go on as headers of ours. */
export interface CarriedHeaders {
  /** How often the event has been forwarded, this time included. */
  readonly hops: string
  readonly traceparent: string | undefined
}

/**
 * Finds them in the stored JSON text. A quotation mark inside a JSON string has a backslash before it, so that no value passes
 * for a member.
 */
export function carriedHeaders(headers: string): CarriedHeaders {
  return {
    hops: /"latchkey-hops":"(\d{1,3})"/.exec(headers)?.[1] ?? '1',
    traceparent: /"traceparent":"([0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2})"/.exec(headers)?.[1],
  }
}

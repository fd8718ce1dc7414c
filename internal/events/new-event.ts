import { createEventId, dayAfter } from '#internal/base/index.ts'
import type { RetentionDays } from '#internal/tenants/index.ts'
import type { ReceivedEvent } from './insert.ts'

/** Source and payload of a new event. */
export type EventSource = Pick<
  ReceivedEvent,
  'tenantId' | 'provider' | 'sourceEventId' | 'receivedAtMs' | 'payload'
>

/**
 * Returns the id, dedupe key, size and expiry days of a new event. Each call makes another id. The dedupe key is kept for `dedupeDaysMin`
 * or longer.
 */
export function derivedEventFields(
  source: EventSource & { readonly retention: RetentionDays; readonly dedupeDaysMin: number },
): Pick<
  ReceivedEvent,
  'id' | 'dedupeKey' | 'payloadBytes' | 'expiresOn' | 'payloadExpiresOn' | 'dedupeExpiresOn'
> {
  const { tenantId, provider, sourceEventId, receivedAtMs, payload, dedupeDaysMin } = source
  const { payloadDays, eventDays } = source.retention
  // Tenant ids and provider names contain no line feed, so different combinations produce different texts. `list.ts` has the same in SQL.
  const dedupeText = `${tenantId}\n${provider}\n${sourceEventId}`
  return {
    id: createEventId(receivedAtMs, eventDays),
    dedupeKey: Bun.SHA256.hash(dedupeText, 'hex').slice(0, 32),
    payloadBytes: Buffer.byteLength(payload),
    expiresOn: dayAfter(receivedAtMs, eventDays),
    payloadExpiresOn: dayAfter(receivedAtMs, payloadDays),
    dedupeExpiresOn: dayAfter(receivedAtMs, Math.max(eventDays, dedupeDaysMin)),
  }
}

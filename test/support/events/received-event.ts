import { createHash } from 'node:crypto'
import { createEventId, dayAfter, type TenantId } from '#internal/base/index.ts'
// Imports a file instead of the `index.ts`, as tests may, which avoids loading all of intake.
import type { ReceivedEvent } from '#internal/events/index.ts'
import { someTenantId } from '../tenants/directory-tenant.ts'

/** Builds an event as intake does from a verified call. Its dedupe key is derived from the tenant and `sourceEventId`. */
export function receivedEvent(
  fields: Partial<ReceivedEvent> & { tenantId?: TenantId } = {},
  receivedAtMs = Date.now(),
): ReceivedEvent {
  const tenantId = fields.tenantId ?? someTenantId()
  const sourceEventId = fields.sourceEventId ?? crypto.randomUUID()
  const payload =
    fields.payload ?? `{"id":"${sourceEventId}","type":"order.created","amount":820982911946154508}`
  return {
    id: createEventId(receivedAtMs, 90),
    dedupeKey: createHash('sha256').update(`${tenantId} ${sourceEventId}`).digest('hex').slice(0, 32),
    tenantId,
    provider: 'generic',
    sourceEventId,
    rawType: 'order.created',
    type: 'order.created',
    occurredAtMs: receivedAtMs - 1_500,
    receivedAtMs,
    headers: '{"content-type":"application/json","latchkey-hops":"1"}',
    payload,
    payloadBytes: Buffer.byteLength(payload),
    expiresOn: dayAfter(receivedAtMs, 90),
    payloadExpiresOn: dayAfter(receivedAtMs, 30),
    dedupeExpiresOn: dayAfter(receivedAtMs, 90),
    origin: { kind: 'provider' },
    state: 'accepted',
    ...fields,
  }
}

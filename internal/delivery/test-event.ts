import { type Clock, encodeBase32, randomToken } from '#internal/base/index.ts'
import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type OpensSecrets, prepareTenant } from './prepared-tenant.ts'
import { signedCall } from './send.ts'

/** Dependencies of sending a test event. */
export interface TestEventParts {
  readonly outbound: Outbound
  readonly secrets: OpensSecrets
  readonly clock: Clock
}

/** Tenant whose callback is called. */
export interface TestEventRequest {
  readonly tenant: DirectoryTenant
  /** Repeats with the same key have the same `webhook-id`. Omit for a new one each time. */
  readonly idempotencyKey?: string | undefined
}

/**
 * Result of a test event. Nothing was sent if it is `unsigned` (the callback has no usable signing secret) or `unreadable` (one of them cannot
 * be opened with the key ring).
 */
export type TestEventResult =
  | { readonly kind: 'called'; readonly id: string; readonly result: CallResult }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'unreadable' }

/** The type of events that test a callback. */
export const testEventType = 'latchkey.test'
const idBytes = 16

/**
 * Calls a tenant's callback once with a made-up event, signed and bounded as a delivery is. Stores nothing; an answer that would
 * suspend the callback does not. Never throws.
 */
export async function sendTestEvent(
  { outbound, secrets, clock }: TestEventParts,
  { tenant, idempotencyKey = randomToken() }: TestEventRequest,
): Promise<TestEventResult> {
  const prepared = prepareTenant(secrets, tenant)
  if (prepared.isUnreadable) return { kind: 'unreadable' }
  if (prepared.keys.length === 0) return { kind: 'unsigned' }
  const nowMs = clock.now()
  const id = idOf(tenant, idempotencyKey)
  const event = {
    ...{ id, tenantId: tenant.id, provider: 'generic', rawType: testEventType, type: testEventType },
    ...{ occurredAtMs: nowMs, receivedAtMs: nowMs, headers: '{}' },
    payload: '{"message":"A test of this callback. No provider sent it."}',
  }
  const call = signedCall(prepared, event, { hops: '1', traceparent: undefined, nowMs })
  return { kind: 'called', id, result: await outbound.send(call) }
}

/** Makes an id that no event has. */
function idOf({ id }: DirectoryTenant, idempotencyKey: string): string {
  const digest = Bun.SHA256.hash(`${id}\n${idempotencyKey}`) as Uint8Array
  return `test_${encodeBase32(digest.subarray(0, idBytes))}`
}

import { type Clock, encodeBase32, randomToken } from '#internal/base/index.ts'
import type { CallResult, Outbound } from '#internal/egress/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type OpensSecrets, prepareTenant } from './prepared-tenant.ts'
import { signedCall } from './send.ts'

/** Dependencies of `sendTestEvent`. */
export interface TestEventParts {
  readonly outbound: Outbound
  readonly secrets: OpensSecrets
  readonly clock: Clock
}

/** Tenant whose callback is called, with an optional idempotency key. */
export interface TestEventRequest {
  readonly tenant: DirectoryTenant
  /** Calls with the same key have the same `webhook-id`. Omit it for a new id per call. */
  readonly idempotencyKey?: string | undefined
}

/**
 * Result of a test event. `unsigned`: not sent, since the callback has no usable signing secret. `unreadable`: not sent, since the key ring
 * cannot decrypt one of the signing secrets.
 */
export type TestEventResult =
  | { readonly kind: 'called'; readonly id: string; readonly result: CallResult }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'unreadable' }

/** Type of events that test a callback. */
export const testEventType = 'latchkey.test'
const idBytes = 16

/**
 * Calls a tenant's callback once with a made-up event. Signature, timeout and limits are those of a delivery. Stores nothing. A response
 * that would suspend the callback has no effect. Never throws.
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
    ...{ id, tenantId: tenant.id, provider: 'generic' as const, rawType: testEventType, type: testEventType },
    ...{ occurredAtMs: nowMs, receivedAtMs: nowMs, headers: '{}' },
    payload: '{"message":"A test of this callback. No provider sent it."}',
  }
  const call = signedCall(prepared, event, { hops: '1', traceparent: undefined, nowMs })
  return { kind: 'called', id, result: await outbound.send(call) }
}

/** Creates an id that no stored event has. */
function idOf({ id }: DirectoryTenant, idempotencyKey: string): string {
  const digest = Bun.SHA256.hash(`${id}\n${idempotencyKey}`) as Uint8Array
  return `test_${encodeBase32(digest.subarray(0, idBytes))}`
}

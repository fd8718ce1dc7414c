import type { Clock, EventId } from '#internal/base/index.ts'
import type { CallResult, Outbound } from '#internal/egress/index.ts'
import { completeTestEvent, type ReceivedEvent, storeTestEvent } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { attemptOf } from './decide.ts'
import { hasCallback, type OpensSecrets, prepareTenant } from './target.ts'

/** `unsigned`: the callback has no usable signing secret. `unreadable`: the key ring cannot decrypt one. In both cases, nothing is sent. */
export type TestEventResult =
  | { readonly kind: 'called'; readonly id: EventId; readonly result: CallResult }
  | { readonly kind: 'no_callback' }
  | { readonly kind: 'unsigned' }
  | { readonly kind: 'unreadable' }

/**
 * Stores a test event, calls its tenant's callback once, and stores the attempt. If a test event with the same dedupe key is stored, sends
 * it again under the stored id, as a further attempt. Signature, timeout and limits are those of a delivery. A response that would suspend
 * the callback has no effect.
 * @throws errors of Postgres; the callback was not called, or its response was not stored
 */
export async function sendTestEvent(
  {
    pool,
    outbound,
    secrets,
    clock,
  }: {
    readonly pool: Pool
    readonly outbound: Outbound
    readonly secrets: OpensSecrets
    readonly clock: Clock
  },
  {
    tenant,
    event,
  }: {
    readonly tenant: DirectoryTenant
    readonly event: ReceivedEvent
  },
): Promise<TestEventResult> {
  if (!hasCallback(tenant)) return { kind: 'no_callback' }
  const prepared = prepareTenant(secrets, tenant)
  if (prepared.isUnreadable) return { kind: 'unreadable' }
  if (!prepared.isSendable) return { kind: 'unsigned' }
  const stored = await storeTestEvent(pool, event)
  const startedAtMs = clock.now()
  const { result, request } = await prepared.send(outbound, {
    content: stored,
    nowMs: startedAtMs,
    hops: '1',
    traceparent: undefined,
  })
  await completeTestEvent(pool, stored.id, attemptOf({ result, request, startedAtMs }))
  return { kind: 'called', id: stored.id, result }
}

import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { sendTestEvent as sendTest } from '#internal/delivery/index.ts'
import type { CallResult } from '#internal/egress/index.ts'
import { notifyForwarders, resumeCallback } from '#internal/events/index.ts'
import type { Redactor } from '#internal/redaction/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { conflict, type Done, invalid, type Outcome, ok, secretsUnreadable } from './outcome.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

/** Result of a test event that was sent to a callback. */
export interface TestEventSent {
  /** The `webhook-id` header of the call. */
  readonly id: string
  /** The callback's response with secrets redacted, or the failure. */
  readonly result: CallResult
}

interface TestEvent {
  readonly tenantId: TenantId
  readonly idempotencyKey?: string | undefined
}

const keyCharsMax = 255

/**
 * Sends one signed event of type `latchkey.test` to the callback immediately. The same address rules apply as for deliveries. Also works
 * while the callback is suspended. Each request sends another event; requests with the same idempotency key send the same `webhook-id`.
 */
const sendTestEvent: UseCase<TestEvent, TestEventSent> = async (
  parts,
  actor,
  { tenantId, idempotencyKey },
) => {
  if (idempotencyKey !== undefined && (idempotencyKey === '' || idempotencyKey.length > keyCharsMax))
    return invalid(`The idempotency key must have 1 to ${keyCharsMax} characters`)
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const tenant = reached.value
  if (tenant.suspended) return conflict('This tenant is suspended: nothing is sent to its callback')
  const entry = { actor: actorName(actor), action: 'callbacks.tested', tenantId, detail: {} }
  await writeAudit(parts.pool, entry, parts.clock.now())
  const sent = await sendTest(parts, { tenant, idempotencyKey })
  if (sent.kind === 'unreadable') return secretsUnreadable
  if (sent.kind === 'unsigned')
    return conflict('The callback has no valid signing secret: see the tenant’s conditions')
  return ok({ id: sent.id, result: redactResult(parts.redactorOf(tenant), sent.result) })
}

function redactResult(redactor: Redactor, result: CallResult): CallResult {
  if (result.kind === 'failed') return result
  const { headers, answer } = result
  // Drops the end of a truncated response, where a secret may have been cut in two.
  const shown = result.answerCut ? redactor.payload(answer, answer.length - 1).text : redactor.text(answer)
  return { ...result, headers: redactor.headers({ ...headers }), answer: shown }
}

/** Resumes deliveries to a suspended callback. `isNew` is false if the callback was not suspended. */
async function resume(parts: DeskParts, actor: Actor, tenantId: TenantId): Promise<Outcome<Done>> {
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const isResumed = await withTx(parts.pool, async (client) => {
    if (!(await resumeCallback(client, tenantId))) return false
    const entry = { actor: actorName(actor), action: 'callbacks.resumed', tenantId, detail: {} }
    await writeAudit(client, entry, parts.clock.now())
    return true
  })
  // If the notification is lost, a forwarder still finds the due deliveries by polling.
  if (isResumed) await notifyForwarders(parts.redis, [tenantId]).catch(() => undefined)
  return ok({ isNew: isResumed })
}

/** Use cases of callbacks. Both require the right to replay. */
export const callbackCases = { sendTestEvent, resume }

import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { sendTestEvent } from '#internal/delivery/index.ts'
import type { CallResult } from '#internal/egress/index.ts'
import { resumeCallback, tellForwarders } from '#internal/events/index.ts'
import type { Redactor } from '#internal/redaction/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { attempt } from './attempt.ts'
import { conflict, invalid, type Outcome, ok, secretsUnreadable } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant } from './reach.ts'
import type { RedactorOf } from './redaction.ts'
import type { Done } from './usage.ts'

/** A call of a callback that carries no event of anybody. */
export interface TestEventSent {
  /** Its `webhook-id`. */
  readonly id: string
  /** What the callback answered, secrets hidden; or why it did not. */
  readonly result: CallResult
}

/** What is done with a tenant's callback; needs the right to replay. */
export interface Callbacks {
  /**
   * Calls the callback once, now, signed and judged as every delivery is, with an event of type `latchkey.test`. Works also while the
   * callback is suspended. A repeat is another call, under the same `webhook-id` where the key is the same.
   */
  sendTestEvent(
    actor: Actor,
    request: { readonly tenantId: TenantId; readonly idempotencyKey?: string | undefined },
  ): Promise<Outcome<TestEventSent>>
  /** Lets the deliveries of a suspended callback go on. `isNew` is false where it was not suspended. */
  resume(actor: Actor, tenantId: TenantId): Promise<Outcome<Done>>
}

const keyCharsMax = 255

/** Makes the use cases of callbacks. */
export function createCallbacks(parts: BackofficeParts, redactorOf: RedactorOf): Callbacks {
  return {
    sendTestEvent: (actor, request) => attempt(parts, () => test(parts, redactorOf, actor, request)),
    resume: (actor, tenantId) => attempt(parts, () => resume(parts, actor, tenantId)),
  }
}

async function test(
  parts: BackofficeParts,
  redactorOf: RedactorOf,
  actor: Actor,
  { tenantId, idempotencyKey }: Parameters<Callbacks['sendTestEvent']>[1],
): Promise<Outcome<TestEventSent>> {
  if (idempotencyKey !== undefined && (idempotencyKey === '' || idempotencyKey.length > keyCharsMax))
    return invalid(`The idempotency key has to be 1 to ${keyCharsMax} characters`)
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const tenant = reached.value
  if (tenant.suspended) return conflict('This tenant is suspended: nothing is sent to its callback')
  const entry = { actor: actorName(actor), action: 'callbacks.tested', tenantId, detail: {} }
  await writeAudit(parts.pool, entry, parts.clock.now())
  const sent = await sendTestEvent(parts, { tenant, idempotencyKey })
  if (sent.kind === 'unreadable') return secretsUnreadable
  if (sent.kind === 'unsigned')
    return conflict('None of the callback’s signing secrets is in force: see the tenant’s conditions')
  return ok({ id: sent.id, result: redactResult(redactorOf(tenant), sent.result) })
}

function redactResult(redactor: Redactor, result: CallResult): CallResult {
  if (result.kind === 'failed') return result
  const { headers, answer } = result
  // Cut off or not: a secret may stand astride the end of what was read.
  const shown = result.answerCut ? redactor.payload(answer, answer.length - 1).text : redactor.text(answer)
  return { ...result, headers: redactor.headers({ ...headers }), answer: shown }
}

async function resume(parts: BackofficeParts, actor: Actor, tenantId: TenantId): Promise<Outcome<Done>> {
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const isResumed = await withTx(parts.pool, async (client) => {
    if (!(await resumeCallback(client, tenantId))) return false
    const entry = { actor: actorName(actor), action: 'callbacks.resumed', tenantId, detail: {} }
    await writeAudit(client, entry, parts.clock.now())
    return true
  })
  // Without it a forwarder finds what is due by its poll.
  if (isResumed) await tellForwarders(parts.redis, [tenantId]).catch(() => undefined)
  return ok({ isNew: isResumed })
}

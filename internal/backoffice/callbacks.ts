import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { sendTestEvent as sendTest } from '#internal/delivery/index.ts'
import type { CallResult } from '#internal/egress/index.ts'
import {
  findNoticeId,
  notificationsDestination,
  notifyForwarders,
  prepareTestNotice,
  readDestinationStatus,
  resumeQueues,
  storeNotice,
} from '#internal/events/index.ts'
import { parseJsonObject } from '#internal/http/index.ts'
import { createTestEvent, type TestEventContent } from '#internal/intake/index.ts'
import { eventCatalogue } from '#internal/providers/index.ts'
import type { Redactor } from '#internal/redaction/index.ts'
import { withTx } from '#internal/storage/index.ts'
import { type ProviderName, retentionOf } from '#internal/tenants/index.ts'
import type { CallbackTested, Done, NotificationTested } from './http-answers.ts'
import type { ValueOf } from './http-schemas.ts'
import { conflict, invalid, noCallback, type Outcome, ok, secretsUnreadable } from './outcome.ts'
import type { DeskParts, UseCase } from './parts.ts'
import { reachTenant } from './reach.ts'

interface TestEvent {
  readonly tenantId: TenantId
  readonly idempotencyKey?: string | undefined
  /** Event to send. Default: one of type `latchkey.test`. */
  readonly content?:
    | { readonly provider: ProviderName; readonly type: string; readonly payload: string }
    | undefined
}

/** Maximum characters of a payload, so that it fits into a form. */
const payloadCharsMax = 16_384

const keyCharsMax = 255

/**
 * Stores a test event and sends it, signed, to the callback immediately, under the same address rules as deliveries. Works while the
 * callback is suspended. The event is never retried or replayed, and does not count as usage. A repeat with the same idempotency key sends
 * the same event again, as a further attempt.
 */
const sendTestEvent: UseCase<TestEvent, CallbackTested> = async (
  parts,
  actor,
  { tenantId, idempotencyKey, content: asked },
) => {
  if (idempotencyKey !== undefined && (idempotencyKey === '' || idempotencyKey.length > keyCharsMax))
    return invalid(`The idempotency key must have 1 to ${keyCharsMax} characters`)
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const tenant = reached.value
  if (!tenant.callback) return noCallback
  const content = asked && contentOf(asked)
  if (content?.kind === 'invalid') return content
  if (tenant.suspended) return tenantSuspended('callback')
  const entry = { actor: actorName(actor), action: 'callbacks.tested', tenantId, detail: {} } as const
  const nowMs = parts.clock.now()
  await writeAudit(parts.pool, entry, nowMs)
  const retention = retentionOf(tenant.retention, parts.retentionDefaults())
  const event = createTestEvent({
    tenant,
    actor: actorName(actor),
    idempotencyKey,
    retention,
    nowMs,
    content: content?.value,
  })
  const sent = await sendTest(parts, { tenant, event })
  if (sent.kind === 'no_callback') return noCallback
  if (sent.kind === 'unreadable') return secretsUnreadable
  if (sent.kind === 'unsigned')
    return conflict('The callback has no valid signing secret: check the tenant’s conditions')
  return ok({ id: sent.id, result: redactResult(parts.redactorOf(tenant), sent.result) })
}

/** Parses the event to send: a type of the catalogue, or any type of `generic`, with a JSON object as its payload. */
function contentOf({
  provider,
  type,
  payload,
}: NonNullable<TestEvent['content']>): Outcome<TestEventContent> & {
  readonly kind: 'ok' | 'invalid'
} {
  const listed = eventCatalogue.find((entry) => entry.type === type)?.providers
  const rawType = listed?.find((each) => each.provider === provider)?.providerRawType
  if (rawType === undefined && (provider !== 'generic' || !/^[a-z0-9_.-]{1,255}$/.test(type)))
    return invalid('must be an event type of this provider', 'type')
  if (payload.length > payloadCharsMax)
    return invalid(`must have at most ${payloadCharsMax} characters`, 'payload')
  const parsed = parseJsonObject(new TextEncoder().encode(payload))
  if (parsed.kind === 'error') return invalid(parsed.message ?? 'must be a JSON object', 'payload')
  return ok({ provider, type, rawType: rawType ?? type, payload })
}

function redactResult(redactor: Redactor, result: CallResult): CallbackTested['result'] {
  const durationMs = Math.round(result.durationMs)
  if (result.kind === 'failed') {
    const { kind, cause, message } = result
    return { kind, cause, message, durationMs }
  }
  const { kind, status, headers, answer, isAnswerCut } = result
  const named = Object.entries(headers).map(([name, text]) => [
    name.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`),
    text,
  ])
  // Drops the end of a truncated response: a secret that was cut in two there would not be recognized.
  const shown = isAnswerCut ? redactor.payload(answer, answer.length - 1).text : redactor.text(answer)
  return {
    kind,
    status,
    durationMs,
    answer: shown,
    isAnswerCut,
    headers: redactor.headers(Object.fromEntries(named)),
  }
}

/** Resumes the callback and the notifications of a tenant. `isNew` is false if neither of them was suspended. */
async function resume(parts: DeskParts, actor: Actor, tenantId: TenantId): Promise<Outcome<Done>> {
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  const resumed = await withTx(parts.pool, async (client) => {
    const queues = await resumeQueues(client, tenantId)
    if (queues.length === 0) return queues
    const entry = { actor: actorName(actor), action: 'callbacks.resumed', tenantId, detail: {} } as const
    await writeAudit(client, entry, parts.clock.now())
    return queues
  })
  const isResumed = resumed.length > 0
  // If the notification is lost, a forwarder still finds the due deliveries by polling.
  if (isResumed) await notifyForwarders(parts.redis, resumed).catch(() => undefined)
  return ok({ isNew: isResumed })
}

const noNotifications = conflict(
  'The tenant has no receiver of notifications: set spec.notifications of the Tenant, then try again',
)
const notificationsSuspended = conflict(
  'Notifications are suspended, since their receiver asked for no more: correct the receiver, then resume deliveries',
)

/**
 * Stores a notification of type `latchkey.test`, which is delivered like other notifications. A tenant gets at most one per interval of 10
 * s; for further requests in the interval, `isNew` is false.
 */
async function sendTestNotification(
  parts: DeskParts,
  actor: Actor,
  tenantId: TenantId,
): Promise<Outcome<ValueOf<typeof NotificationTested>>> {
  const reached = await reachTenant(parts, actor, tenantId, 'replay')
  if (reached.kind !== 'ok') return reached
  if (reached.value.notifications === undefined) return noNotifications
  if (reached.value.suspended) return tenantSuspended('receiver of notifications')
  const blocker = await readDestinationStatus(parts.pool, { tenantId, destination: notificationsDestination })
  if (blocker.suspension !== undefined) return notificationsSuspended
  const nowMs = parts.clock.now()
  const event = await prepareTestNotice(parts, tenantId, nowMs)
  if (event === undefined) return noNotifications
  const queueId = await withTx(parts.pool, async (client) => {
    const stored = await storeNotice(client, event)
    const entry = { actor: actorName(actor), action: 'notifications.tested', tenantId, detail: {} } as const
    if (stored !== undefined) await writeAudit(client, entry, nowMs)
    return stored
  })
  if (queueId === undefined)
    return ok({ id: (await findNoticeId(parts.pool, event)) ?? event.id, isNew: false })
  await notifyForwarders(parts.redis, [queueId]).catch(() => undefined)
  return ok({ id: event.id, isNew: true })
}

function tenantSuspended(receiver: string) {
  return conflict(
    `This tenant is suspended, so nothing is sent to its ${receiver}: ask the platform team to resume it`,
  )
}

/** Use cases of callbacks, which all require the right to replay. */
export const callbackCases = { sendTestEvent, sendTestNotification, resume }

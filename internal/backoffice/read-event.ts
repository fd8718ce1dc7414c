import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import type { EventId } from '#internal/base/index.ts'
import { type AttemptView, readEvent, readPayload } from '#internal/events/index.ts'
import { type Redactor, shownCharsMax } from '#internal/redaction/index.ts'
import type { EventDetail, EventReadOptions, RawPayload } from './events.ts'
import { conflict, notFound, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachEvent } from './reach-event.ts'
import { type RedactorOf, redactHeaders } from './redaction.ts'

const answerCharsMax = 4_096

/** One event with all that is known of it, secrets hidden. */
export async function readEventDetail(
  { redactorOf, ...parts }: BackofficeParts & { readonly redactorOf: RedactorOf },
  actor: Actor,
  id: EventId,
  { withoutPayload = false }: EventReadOptions = {},
): Promise<Outcome<EventDetail>> {
  const reached = await reachEvent(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const { tenant } = reached.value
  const place = { id, tenantId: tenant.id }
  const nowMs = parts.clock.now()
  const [view, payload] = await Promise.all([
    readEvent(parts.readPool, place, nowMs),
    // One more than is shown tells that there is more.
    withoutPayload ? undefined : readPayload(parts.readPool, place, nowMs, shownCharsMax + 1),
  ])
  if (view === undefined) return notFound
  const redactor = redactorOf(tenant)
  const { event, hasEarlierAttempts, queued } = view
  return ok({
    ...{ event, hasEarlierAttempts, queued },
    headers: redactHeaders(redactor, view.headers),
    payload: payload?.kind === 'payload' ? shownPayload(redactor, payload.payload) : undefined,
    attempts: view.attempts.map((each) => redactAttempt(redactor, each)),
  })
}

/** How many characters there are is not known: no more than are shown were read. */
function shownPayload(redactor: Redactor, payload: string): EventDetail['payload'] {
  const { text, isCut } = redactor.payload(payload)
  return { text, isCut }
}

function redactAttempt(redactor: Redactor, attempt: AttemptView): AttemptView {
  if (attempt.answer === null) return attempt
  return { ...attempt, answer: redactor.payload(attempt.answer, answerCharsMax).text }
}

/** The payload as it was received; its line in the audit log is there before it is given. */
export async function readRawPayload(
  parts: BackofficeParts,
  actor: Actor,
  id: EventId,
): Promise<Outcome<RawPayload>> {
  const reached = await reachEvent(parts, actor, id, 'readPayloads')
  if (reached.kind !== 'ok') return reached
  const { event, tenant } = reached.value
  const nowMs = parts.clock.now()
  const read = await readPayload(parts.readPool, { id, tenantId: tenant.id }, nowMs)
  if (read.kind !== 'payload')
    return read.kind === 'unknown'
      ? notFound
      : conflict('The payload is not kept any more: its event is, and what became of it')
  const entry = {
    actor: actorName(actor),
    action: 'payloads.read',
    tenantId: tenant.id,
    detail: { event: id },
  }
  await writeAudit(parts.pool, entry, nowMs)
  return ok({ event, payload: read.payload })
}

import { type Actor, actorName } from '#internal/access/index.ts'
import { tellForwarders } from '#internal/events/index.ts'
import { replayEvent } from '#internal/replays/index.ts'
import type { EventReplay, EventReplayed } from './events.ts'
import { conflict, notFound, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachEvent } from './reach-event.ts'

/** Begins another round of one event; with the round that was seen, repeats begin one and no more. */
export async function replayOneEvent(
  parts: BackofficeParts,
  actor: Actor,
  { id, round }: EventReplay,
): Promise<Outcome<EventReplayed>> {
  const reached = await reachEvent(parts, actor, id, 'replay')
  if (reached.kind !== 'ok') return reached
  const { pool, redis, clock } = parts
  const tenantId = reached.value.tenant.id
  const request = { eventId: id, tenantId, by: actorName(actor), ...(round !== undefined && { round }) }
  const result = await replayEvent(pool, request, clock.now())
  switch (result.kind) {
    case 'queued':
      // Without it a forwarder finds the event by its poll.
      await tellForwarders(redis, [tenantId]).catch(() => undefined)
      return ok({ tenantId, round: result.round, isQueued: true })
    case 'already_queued':
      return ok({ tenantId, round: result.round, isQueued: false })
    case 'changed':
      return round !== undefined && result.round > round
        ? ok({ tenantId, round: result.round, isQueued: false })
        : conflict('The event is in an earlier round than this one: read it again')
    case 'not_found':
      return notFound
    case 'payload_expired':
      return conflict('The payload is not kept any more, so that there is nothing to deliver')
    case 'not_enabled':
      return conflict('The provider is only tried out for this tenant: enable it first')
    case 'rounds_exhausted':
      return conflict('The event has had as many rounds as there can be')
  }
}

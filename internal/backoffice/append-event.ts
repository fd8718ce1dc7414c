import { type Actor, actorName, writeAudit } from '#internal/access/index.ts'
import { tellForwarders } from '#internal/events/index.ts'
import { HeaderRules, handInEvent, secretHeaders } from '#internal/intake/index.ts'
import type { Appended, AppendedEvent } from './events.ts'
import { conflict, invalid, type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant } from './reach.ts'

const retryAfterMs = 1_000
const headerRules = new HeaderRules(secretHeaders)

/** Stores an event that another service has verified. Its line in the audit log is there before it is; a repeat leaves none. */
export async function appendEvent(
  parts: BackofficeParts,
  actor: Actor,
  given: AppendedEvent,
): Promise<Outcome<Appended>> {
  const reached = await reachTenant(parts, actor, given.tenantId, 'appendEvents')
  if (reached.kind !== 'ok') return reached
  const nowMs = parts.clock.now()
  const { type, rawType = type, headers = {}, occurredAtMs } = given
  const request = { ...given, rawType, headers, occurredAtMs, tenant: reached.value }
  const result = await handInEvent(handInParts(parts, actor), request, nowMs)
  switch (result.kind) {
    case 'stored':
    case 'known':
      return ok({ id: result.id, isNew: result.kind === 'stored' })
    case 'invalid':
      return invalid(result.problem)
    case 'notTaken':
      return conflict(result.problem)
    case 'unavailable':
      return { kind: 'unavailable', retryAfterMs }
  }
}

function handInParts(parts: BackofficeParts, actor: Actor): Parameters<typeof handInEvent>[0] {
  const { pool, redis, clock, onAppended, onTrouble, retentionDefaults } = parts
  return {
    headerRules,
    retentionDefaults,
    storing: {
      pool,
      // Without it a forwarder finds the event by its poll.
      wake: (tenantIds) => void tellForwarders(redis, tenantIds).catch(() => undefined),
      onStored: onAppended,
      onError: onTrouble,
    },
    async beforeStored({ id, tenantId, provider, sourceEventId }) {
      const detail = { event: id, provider, sourceEventId }
      const entry = { actor: actorName(actor), action: 'events.appended', tenantId, detail }
      await writeAudit(pool, entry, clock.now())
    },
  }
}

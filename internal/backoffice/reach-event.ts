import type { Action, Actor } from '#internal/access/index.ts'
import type { EventId } from '#internal/base/index.ts'
import { type EventSummary, listEvents } from '#internal/events/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'
import { type Outcome, ok } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant } from './reach.ts'

/** An event with its tenant. */
export interface ReachedEvent {
  readonly event: EventSummary
  readonly tenant: DirectoryTenant
}

/** The event, where the actor sees its tenant and may do this with it. */
export async function reachEvent(
  parts: BackofficeParts,
  actor: Actor,
  id: EventId,
  action?: Action,
): Promise<Outcome<ReachedEvent>> {
  const own = actor.kind === 'tenantKey' ? { tenantId: actor.tenantId } : {}
  const { events } = await listEvents(parts.readPool, { id, limit: 1, ...own }, parts.clock.now())
  const [event] = events
  const reached = await reachTenant(parts, actor, { tenantId: event?.tenantId, named: id }, action)
  if (reached.kind !== 'ok') return reached
  return event === undefined ? { kind: 'notFound' } : ok({ event, tenant: reached.value })
}

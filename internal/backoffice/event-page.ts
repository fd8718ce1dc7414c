import type { Actor } from '#internal/access/index.ts'
import { type EventSummary, listEvents, parseEventCursor } from '#internal/events/index.ts'
import type { EventListRequest } from './events.ts'
import { listInScope } from './merge-pages.ts'
import { cursorOf, invalid, limitOf, type Outcome, ok, type Page } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { providerOf } from './provider-of.ts'
import { reachList } from './reach.ts'

/** A page of events, newest first: of one tenant, of all, or of some, whose pages are merged. */
export async function listEventPage(
  parts: BackofficeParts,
  actor: Actor,
  request: EventListRequest,
): Promise<Outcome<Page<EventSummary>>> {
  const filter = filterOf(request)
  if (filter.kind !== 'ok') return filter
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  const nowMs = parts.clock.now()
  if (scope.value.kind === 'all' && request.sourceEventId !== undefined)
    return invalid('A provider’s id is looked for within a tenant: name the tenant, too')
  const page = await listInScope<EventSummary, string>(scope.value, {
    limit: filter.value.limit,
    positionOf: ({ id }) => id,
    async list(tenantId) {
      const whose = tenantId && { tenantId }
      const { events, next } = await listEvents(parts.readPool, { ...filter.value, ...whose }, nowMs)
      return { items: events, next }
    },
  })
  return ok(page)
}

type Filter = Parameters<typeof listEvents>[1]

function filterOf(request: EventListRequest): Outcome<Filter> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const { type, state, fromMs, toMs, id, sourceEventId } = request
  const provider = providerOf(request)
  if (provider.kind !== 'ok') return provider
  const after = cursorOf(request, parseEventCursor)
  if (after.kind !== 'ok') return after
  return ok({
    limit: limit.value,
    ...(after.value !== undefined && { after: after.value }),
    ...(provider.value !== undefined && { provider: provider.value }),
    ...(type !== undefined && { type }),
    ...(state !== undefined && { state }),
    ...(fromMs !== undefined && { fromMs }),
    ...(toMs !== undefined && { toMs }),
    ...(id !== undefined && { id }),
    ...(sourceEventId !== undefined && { sourceEventId }),
  })
}

import type { TenantId } from '#internal/base/index.ts'
import { type FeedEvent, type LoadedEvent, loadEvents, withinBytes } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'

/** Event of a pull or a stream. The payload is absent after its retention has ended. */
export type PulledEvent = LoadedEvent['content']

/** Maximum bytes of payloads in a pull and in a page of a stream, unless the first event alone has more. */
export const pulledBytesMax = 4 * 1024 * 1024

export function fitting(events: readonly FeedEvent[]): readonly FeedEvent[] {
  return withinBytes(events, pulledBytesMax)
}

/** Loads the content of events. Omits events that retention has removed since the feed was read. @throws errors of Postgres */
export async function loadContent(
  pool: Pool,
  tenantId: TenantId,
  events: readonly FeedEvent[],
): Promise<readonly (readonly [FeedEvent, PulledEvent])[]> {
  const loaded = await loadEvents(
    pool,
    events.map(({ eventId, payloadExpiresOn }) => ({ eventId, payloadExpiresOn, tenantId })),
  )
  return events.flatMap((event) => {
    const content = loaded.get(event.eventId)?.content
    return content ? [[event, content] as const] : []
  })
}

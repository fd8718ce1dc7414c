import { type EventId, expectPageLimit, type TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { type EventFilter, rangeBeyond, rangeOf } from './event-filter.ts'
import { type EventSummary, scanEvents } from './event-scan.ts'

/** Which page of which events. */
export interface EventListRequest extends Omit<EventFilter, 'ids'> {
  readonly id?: EventId
  /** The provider's own id; only together with `tenantId`. */
  readonly sourceEventId?: string
  /** Lists events older than this one: `next` of the previous page. */
  readonly after?: EventId
  /** 1 to 100. */
  readonly limit: number
}

/** A page, newest first. */
export interface EventPage {
  readonly events: readonly EventSummary[]
  /**
   * Where the next page begins; undefined: there is none. A page that is shorter than its limit and has one was not finished:
   * all that is newer was searched, and the rest is on the pages that follow, which may be empty, too.
   */
  readonly next: EventId | undefined
}

/** Events that a page looks at where no index knows all of its filter: some milliseconds of work. */
const examinedMax = 1_000

/**
 * A page of events by filter, newest first. Those whose day has come are left out, also while they are there. What is accepted or
 * failed, and what is of one tenant, type or provider, or of a tenant with either, is found without looking at others; anything
 * narrower within `examinedMax` events a page. Give it a pool with `eventReadSettings`.
 * @throws RangeError for a limit over 100 or a `sourceEventId` without tenant; whatever Postgres throws
 */
export async function listEvents(pool: Pool, request: EventListRequest, nowMs: number): Promise<EventPage> {
  const { id, sourceEventId, after, limit, tenantId } = request
  expectPageLimit(limit, 'events')
  const ids = id === undefined ? undefined : [id]
  const known = sourceEventId === undefined ? ids : await idsOfSource(pool, sourceEventId, tenantId)
  const filter: EventFilter = {
    ...request,
    ...(known && { ids: ids ? known.filter((one) => one === id) : known }),
  }
  const whole = rangeOf(filter, nowMs)
  const range = after === undefined ? whole : rangeBeyond(whole, after, 'newest')
  const page = await scanEvents(pool, { filter, range, order: 'newest', rowsMax: limit, examinedMax })
  return { events: page.events, next: page.searchedTo }
}

// By the key that intake makes of tenant, provider and the provider's id, one for each provider. A read, no locks.
const sourceText = `
SELECT k.event_id FROM unnest(ARRAY['card', 'storefront', 'codehost', 'generic', 'wallet', 'gateway']) AS p(name)
JOIN dedupe_keys k ON k.key = encode(substring(sha256(convert_to(
  $1::text || E'\\n' || p.name || E'\\n' || $2::text, 'UTF8')) FOR 16), 'hex')::uuid`

async function idsOfSource(pool: Pool, sourceEventId: string, tenantId?: TenantId): Promise<EventId[]> {
  if (tenantId === undefined) throw new RangeError('a provider’s id is looked for within a tenant')
  const { rows } = await pool.query<[EventId]>({
    text: sourceText,
    rowMode: 'array',
    values: [tenantId, sourceEventId],
  })
  return rows.map(([id]) => id)
}

import type { Clock } from '#internal/base/index.ts'
import { type FeedEvent, type FeedPosition, feedStart, readFeed } from '#internal/events/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import { fitting, loadContent, type PulledEvent } from './content.ts'
import type { FeedNews } from './news.ts'
import { readStored } from './store.ts'
import type { StoredSubscription, SubscriptionPlace } from './subscription.ts'

/** Maximum seconds that a pull waits for events. */
export const waitSecondsMax = 20
/** Maximum events of a pull. */
export const pullEventsMax = 100

export interface PullRequest extends SubscriptionPlace {
  /** Maximum events, 1 to 100. */
  readonly limit: number
  readonly leaseSeconds: number
}

/** Events are in the order of the feed. */
export interface Pulled {
  readonly kind: 'pulled'
  readonly events: readonly PulledEvent[]
  /** Token of the lease; undefined without events. */
  readonly ackToken: string | undefined
  /** True if more events may be available now. */
  readonly hasMore: boolean
  /** Time before which a pull returns no events: the end of another lease or of a delay. Null if there is none. */
  readonly availableAtMs: number | null
  /** Position from which the next read continues: the feed up to it has no further event that matches the filter. */
  readonly examinedTo: FeedPosition
}

/** `beyond_end`: the position is ahead of all transactions, so it comes from another Postgres cluster, as after a restore. */
export type PullResult = Pulled | { readonly kind: 'unknown' } | { readonly kind: 'beyond_end' }

/** Maximum pages that a pull examines for events that match its filter. */
const pagesMax = 5

const nothing = {
  kind: 'pulled',
  events: [],
  ackToken: undefined,
  hasMore: false,
  availableAtMs: null,
  examinedTo: feedStart,
} as const

/**
 * Returns the next events of a subscription under a lease. Until the lease ends, other pulls return no events; after it, events that are
 * not acknowledged are returned again. Requires a pool with `eventReadSettings`. @throws errors of Postgres
 */
export async function pullEvents(pool: Pool, request: PullRequest, nowMs: number): Promise<PullResult> {
  const { tenantId, name, limit } = request
  const stored = await readStored(pool, { tenantId, name })
  if (!stored) return { kind: 'unknown' }
  if (stored.availableAtMs !== null) return { ...nothing, availableAtMs: stored.availableAtMs }
  let after = stored.position
  let hasMore = true
  for (let page = 0; page < pagesMax && hasMore; page += 1) {
    const feed = await readFeed(pool, { tenantId, filter: stored, after, limit }, nowMs)
    if (feed.isBeyondEnd) return { kind: 'beyond_end' }
    if (feed.events.length > 0)
      return leaseEvents(pool, request, { ...stored, events: feed.events, hasMore: feed.hasMore })
    after = feed.examinedTo
    ;({ hasMore } = feed)
  }
  if (after !== stored.position) await moveTo(pool, request, stored, after)
  return { ...nothing, hasMore, examinedTo: after }
}

/** A pull that waits for events. */
export interface WaitingPull extends PullRequest {
  readonly waitMs: number
  /** Ends the wait when it aborts. */
  readonly gone: AbortSignal
  /** Runs each wait. Meanwhile, the pull does not count as a call in progress. Resolves to false if the pull must then end. */
  aside(wait: () => Promise<unknown>): Promise<boolean>
}

/**
 * Pulls like `pullEvents`. If there are no events, waits for some without a lease. Does not wait for the end of another lease or of a
 * delay. `too_many`: too many pulls wait, or `aside` ended this one.
 * @throws errors of Postgres
 */
export async function pullOrWait(
  { pool, clock, news }: { pool: Pool; clock: Clock; news?: Pick<FeedNews, 'openForPull'> },
  { waitMs, gone, aside, ...request }: WaitingPull,
): Promise<PullResult | { readonly kind: 'too_many' }> {
  if (waitMs === 0) return pullEvents(pool, request, clock.now())
  // Opened before the first read, so that no notification of new events is missed.
  const reader = news?.openForPull(request.tenantId)
  if (!reader) return { kind: 'too_many' }
  const onGone = () => reader.close()
  gone.addEventListener('abort', onGone)
  try {
    const untilMs = clock.now() + waitMs
    for (;;) {
      const result = await pullEvents(pool, request, clock.now())
      const isEmpty = result.kind === 'pulled' && result.events.length === 0
      if (!isEmpty || result.hasMore || result.availableAtMs !== null) return result
      reader.after = result.examinedTo
      const leftMs = untilMs - clock.now()
      if (leftMs <= 0) return result
      let isDue = false
      const goesOn = await aside(async () => {
        isDue = await reader.wait(leftMs)
      })
      if (!goesOn) return { kind: 'too_many' }
      if (!isDue || reader.closed.aborted) return result
    }
  } finally {
    gone.removeEventListener('abort', onGone)
    reader.close()
  }
}

type Found = StoredSubscription & { readonly events: readonly FeedEvent[]; readonly hasMore: boolean }

async function leaseEvents(pool: Pool, request: PullRequest, found: Found): Promise<PullResult> {
  const { tenantId, name, leaseSeconds } = request
  const events = fitting(found.events)
  const last = events.at(-1)
  if (!last) return nothing
  const loaded = await loadContent(pool, tenantId, events)
  const ackToken = crypto.randomUUID()
  const { transaction } = last.position
  const { rowCount } = await pool.query({
    name: 'lease_events',
    // Writes nothing if another call has changed the subscription since it was read.
    text: `UPDATE subscriptions SET lease = $4, leased_transaction = $5::xid8, leased_event = $6,
        held_until = now() + make_interval(secs => $7::integer), version = version + 1
      WHERE tenant_id = $1 AND name = $2 AND version = $3::bigint`,
    values: [tenantId, name, found.version, ackToken, transaction, last.eventId, leaseSeconds],
  })
  if (rowCount === 0) {
    const changed = await readStored(pool, request)
    return changed ? { ...nothing, hasMore: true, availableAtMs: changed.availableAtMs } : { kind: 'unknown' }
  }
  return {
    kind: 'pulled',
    events: loaded.map(([, content]) => content),
    ackToken,
    hasMore: found.hasMore || events.length < found.events.length,
    availableAtMs: null,
    examinedTo: found.position,
  }
}

/** Moves the position past events that do not match the filter. Writes nothing if another call has changed the subscription. */
async function moveTo(
  pool: Pool,
  { tenantId, name }: SubscriptionPlace,
  { version }: StoredSubscription,
  { transaction, eventId }: FeedPosition,
): Promise<void> {
  await pool.query({
    name: 'move_subscription',
    text: `UPDATE subscriptions SET position_transaction = $4::xid8, position_event = $5, version = version + 1
      WHERE tenant_id = $1 AND name = $2 AND version = $3::bigint`,
    values: [tenantId, name, version, transaction, eventId],
  })
}

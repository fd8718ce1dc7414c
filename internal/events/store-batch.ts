import type { EventId } from '#internal/base/index.ts'
import { ensurePartitions, type Pool, writeRows } from '#internal/storage/index.ts'
import { findEventsByKey, insertEvents, partitionsOf, tenantsToWake } from './insert.ts'
import type { ReceivedEvent } from './received-event.ts'
import { requeueFailed } from './requeue.ts'

/**
 * What became of an event. `stored`: committed. `duplicate`: the original is committed. `queued`: in the spool. `unavailable`:
 * nowhere, the provider must send it again. `refused`: Postgres can never take it.
 */
export type Acceptance = 'stored' | 'duplicate' | 'queued' | 'unavailable' | 'refused'

/** What storing a batch gave, event by event in its order; `unavailable`: nothing is known to be stored. */
export type BatchOutcome =
  | { readonly kind: 'settled'; readonly acceptances: readonly Acceptance[] }
  | { readonly kind: 'unavailable' }

/** Hears of an event's fate as soon as it is known. */
export type OnSettled = (event: ReceivedEvent, acceptance: Acceptance) => void

/** What storing works with. */
export interface StoreBatchOptions {
  readonly pool: Pool
  /** Told of tenants with new work, after the commit; must not throw. */
  wake(tenantIds: readonly string[]): void
  /** Told of events that are new, once each, after their commit; not of duplicates. Must not throw. */
  onStored?(events: readonly ReceivedEvent[]): void
  /** Told of what went wrong: once for each failed statement. Must not throw. */
  onError(error: unknown, kind: 'unavailable' | 'refused'): void
  /**
   * Whether a duplicate that says `retriesOnRedelivery` begins a new delivery cycle for a failed event; the drain of the spool says no.
   * Default yes.
   */
  readonly requeues?: boolean
}

/**
 * Stores a batch and returns each event's result; those that are new are reported to `onSettled` right after the commit. Never
 * throws. Safe to repeat.
 * @param events sorted by `dedupeKey`, no key twice
 */
export async function storeBatch(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  onSettled: OnSettled = () => undefined,
): Promise<BatchOutcome> {
  const results = await writeRows(events, {
    write: (part) => storePart(options, part, onSettled),
    createPartitions: (part) => ensurePartitions(options.pool, partitionsOf(part)),
  })
  const errors = new Set<unknown>()
  const acceptances = results.map((each): Acceptance => {
    if (each.kind === 'written') return each.result
    if (each.kind === 'rejected') options.onError(each.error, 'refused')
    else errors.add(each.error)
    return each.kind === 'rejected' ? 'refused' : 'unavailable'
  })
  for (const error of errors) options.onError(error, 'unavailable')
  const isUnavailable = results.every(({ kind }) => kind === 'unavailable')
  return isUnavailable ? { kind: 'unavailable' } : { kind: 'settled', acceptances }
}

async function storePart(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  onSettled: OnSettled,
): Promise<Acceptance[]> {
  const stored = await insertEvents(options.pool, events)
  const fresh = stored.size === events.length ? events : events.filter(({ id }) => stored.has(id))
  if (fresh.length > 0) options.wake(tenantsToWake(fresh))
  options.onStored?.(fresh)
  return await judge(options, events, stored, onSettled)
}

/** Settles new events at once; looks up the originals of the others, and begins a new delivery cycle where their tenant wants one. */
async function judge(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  stored: ReadonlySet<EventId>,
  onSettled: OnSettled,
): Promise<Acceptance[]> {
  const known = events.filter(({ id }) => !stored.has(id))
  if (known.length === 0) return events.map(() => 'stored')
  for (const event of events) if (stored.has(event.id)) onSettled(event, 'stored')
  const fates = await revive(options, known)
  return events.map((event) => (stored.has(event.id) ? 'stored' : (fates.get(event.id) ?? 'unavailable')))
}

/**
 * Finds the originals of duplicates and requeues failed ones if their tenant opted in. Omits keys that retention deleted meanwhile;
 * those calls are answered as unavailable. Returns an empty map if Postgres fails.
 */
async function revive(
  options: StoreBatchOptions,
  duplicates: readonly ReceivedEvent[],
): Promise<ReadonlyMap<EventId, Acceptance>> {
  try {
    const keys = duplicates.map(({ dedupeKey }) => dedupeKey)
    const originals = await findEventsByKey(options.pool, keys)
    // An earlier try of ours may have been committed although its answer was lost.
    const fateOf = ({ id, dedupeKey }: ReceivedEvent): Acceptance =>
      originals.get(dedupeKey) === id ? 'stored' : originals.has(dedupeKey) ? 'duplicate' : 'unavailable'
    const others = duplicates.filter((one) => fateOf(one) === 'duplicate' && one.retriesOnRedelivery)
    if ((options.requeues ?? true) && others.length > 0) await requeue(options, others, originals)
    return new Map(duplicates.map((one) => [one.id, fateOf(one)]))
  } catch (error) {
    options.onError(error, 'unavailable')
    return new Map()
  }
}

async function requeue(
  { pool, wake }: StoreBatchOptions,
  duplicates: readonly ReceivedEvent[],
  originals: ReadonlyMap<string, EventId>,
): Promise<void> {
  const candidates = duplicates.flatMap(({ dedupeKey, payload, payloadExpiresOn }) => {
    const eventId = originals.get(dedupeKey)
    return eventId === undefined ? [] : [{ eventId, payload, payloadExpiresOn }]
  })
  const requeued = new Set(await requeueFailed(pool, candidates))
  if (requeued.size === 0) return
  wake(tenantsToWake(duplicates.filter((one) => requeued.has(originals.get(one.dedupeKey) ?? one.id))))
}

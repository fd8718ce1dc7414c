import type { EventId } from '#internal/base/index.ts'
import { ensurePartitions, isMissingPartition, type Pool, sqlErrorOf } from '#internal/storage/index.ts'
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

/** Tries of one batch: deadlocks and partitions just made. */
const triesMax = 4

/**
 * Stores a batch and tells each event's fate, of those that are new right after the commit. A deadlock is tried again; a day
 * without a partition gets one; a data error halves the batch until the bad row stands alone. Anything else is Postgres being
 * away. Never throws. Safe to repeat.
 * @param events sorted by `dedupeKey`, no key twice
 */
export async function storeBatch(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  onSettled: OnSettled = () => undefined,
): Promise<BatchOutcome> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const stored = await insertEvents(options.pool, events)
      const fresh = stored.size === events.length ? events : events.filter(({ id }) => stored.has(id))
      if (fresh.length > 0) options.wake(tenantsToWake(fresh))
      options.onStored?.(fresh)
      return { kind: 'settled', acceptances: await judge(options, events, stored, onSettled) }
    } catch (error) {
      const failure = failureOf(error)
      if (failure === 'refused') return await isolate(options, events, error)
      if (failure === 'unavailable' || attempt === triesMax) {
        options.onError(error, 'unavailable')
        return { kind: 'unavailable' }
      }
      if (failure === 'partition' && !(await makePartitions(options, events))) return { kind: 'unavailable' }
    }
  }
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

async function isolate(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
  error: unknown,
): Promise<BatchOutcome> {
  if (events.length === 1) {
    options.onError(error, 'refused')
    return { kind: 'settled', acceptances: ['refused'] }
  }
  const middle = Math.ceil(events.length / 2)
  const first = await storeBatch(options, events.slice(0, middle))
  if (first.kind === 'unavailable') return first
  const second = await storeBatch(options, events.slice(middle))
  // The first half is settled whatever became of the second: what is asked again meets its own keys.
  if (second.kind === 'unavailable') {
    const unknown = events.slice(middle).map((): Acceptance => 'unavailable')
    return { kind: 'settled', acceptances: [...first.acceptances, ...unknown] }
  }
  return { kind: 'settled', acceptances: [...first.acceptances, ...second.acceptances] }
}

async function makePartitions(
  { pool, onError }: StoreBatchOptions,
  events: readonly ReceivedEvent[],
): Promise<boolean> {
  try {
    await ensurePartitions(pool, partitionsOf(events))
    return true
  } catch (error) {
    onError(error, 'unavailable')
    return false
  }
}

type Failure = 'retry' | 'partition' | 'refused' | 'unavailable'

/** Classes and codes: https://www.postgresql.org/docs/15/errcodes-appendix.html (read 2026-11). */
function failureOf(error: unknown): Failure {
  if (isMissingPartition(error)) return 'partition'
  const code = sqlErrorOf(error)?.code
  if (code === '40P01' || code === '40001') return 'retry'
  // Data exceptions, violated constraints, program limits: this data will never do.
  return code !== undefined && /^(22|23|54)/.test(code) ? 'refused' : 'unavailable'
}

import type { EventId } from '#internal/base/index.ts'
import { requeueFailed } from '#internal/deliveries/index.ts'
import { ensurePartitions, isMissingPartition, type Pool } from '#internal/storage/index.ts'
import type { ReceivedEvent } from './event.ts'
import type { Acceptance, BatchOutcome } from './event-queue.ts'
import { findEventsByKey, insertEvents, partitionsOf, tenantsToWake } from './store.ts'

/** What storing works with. */
export interface StoreBatchOptions {
  readonly pool: Pool
  /** Told of tenants with new work, after the commit; must not throw. */
  wake(tenantIds: readonly string[]): void
  /** Told of what went wrong: once for each failed statement. Must not throw. */
  onError(error: unknown, kind: 'unavailable' | 'refused'): void
  /** Whether an event that had failed gets a new round when it comes again; the drain of the spool says no. Default yes. */
  readonly requeues?: boolean
}

/** Tries of one batch: deadlocks and partitions just made. */
const triesMax = 4

/**
 * Stores a batch and tells each event's fate. A deadlock is tried again; a day without a partition gets one; a data error halves
 * the batch until the bad row stands alone. Anything else is Postgres being away. Never throws. Safe to repeat.
 * @param events sorted by `dedupeKey`, no key twice
 */
export async function storeBatch(
  options: StoreBatchOptions,
  events: readonly ReceivedEvent[],
): Promise<BatchOutcome> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return { kind: 'settled', acceptances: await storeAll(options, events) }
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

async function storeAll(options: StoreBatchOptions, events: readonly ReceivedEvent[]): Promise<Acceptance[]> {
  const stored = await insertEvents(options.pool, events)
  options.wake(tenantsToWake(events))
  const known = events.filter(({ id }) => !stored.has(id))
  const gone = known.length === 0 ? noKeys : await revive(options, known)
  return events.map(({ id, dedupeKey }) => {
    if (stored.has(id)) return 'stored'
    return gone.has(dedupeKey) ? 'unavailable' : 'duplicate'
  })
}

const noKeys: ReadonlySet<string> = new Set()

/** Gives failed originals a new round. Gives the keys that retention took away between our statements. */
async function revive(
  options: StoreBatchOptions,
  duplicates: readonly ReceivedEvent[],
): Promise<ReadonlySet<string>> {
  const originals = await findEventsByKey(
    options.pool,
    duplicates.map(({ dedupeKey }) => dedupeKey),
  )
  if (options.requeues ?? true) await requeue(options, duplicates, originals)
  return new Set(duplicates.filter((one) => !originals.has(one.dedupeKey)).map(({ dedupeKey }) => dedupeKey))
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
  const code = codeOf(error)
  if (code === '40P01' || code === '40001') return 'retry'
  // Data exceptions, violated constraints, program limits: this data will never do.
  return code !== undefined && /^(22|23|54)/.test(code) ? 'refused' : 'unavailable'
}

function codeOf(error: unknown): string | undefined {
  if (!(error instanceof Error)) return undefined
  return 'code' in error && typeof error.code === 'string' ? error.code : codeOf(error.cause)
}

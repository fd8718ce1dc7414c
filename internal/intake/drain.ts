import { randomToken } from '#internal/base/index.ts'
import type { BatchOutcome, ReceivedEvent } from '#internal/events/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { eventBatch } from './event-queue.ts'
import { countedKeys, decodeEntry, type SpoolEntry, spoolKeys, spoolScripts } from './spool.ts'

export interface DeadEntry {
  /** Event id as stored, which can be invalid; '' if it is missing. */
  readonly eventId: string
  /** `unreadable`: the entry contains no valid event. `refused`: Postgres rejects the event. */
  readonly reason: 'unreadable' | 'refused'
}

export interface DrainOptions {
  readonly redis: RedisConnection
  /** Stores events without starting new delivery cycles. The events must be sorted by dedupe key, without duplicates. Never rejects. */
  storeBatch(events: readonly ReceivedEvent[]): Promise<BatchOutcome>
  /** Called once per dead entry. Must not throw. */
  onDead(entry: DeadEntry): void
}

const leaseMs = 10_000
/** Maximum batches per `runOnce`. A full spool contains fewer batches. */
const batchesMax = 10_000
const start = '-'

/**
 * Moves spooled events to Postgres, in order. Removes an entry only after its event is committed. After a crash or a lost lease, a repeated
 * event is a duplicate by its dedupe key. Any number of processes can run a drain: a lease lets one process work at a time, and a lost
 * lease does no harm.
 */
export class Drain {
  readonly #options: DrainOptions
  readonly #token = randomToken()
  #rows = eventBatch.itemsMax
  #from = start

  constructor(options: DrainOptions) {
    this.#options = options
  }

  /**
   * Moves spooled events to Postgres until the spool is empty, the signal is aborted or another process has the lease. An idle run takes
   * one Redis call.
   * @throws RedisUnavailable, and an Error if Postgres stored nothing; entries that were not stored stay in the spool
   */
  async runOnce(signal: AbortSignal): Promise<void> {
    let entries = await this.#read()
    if (!entries) return
    try {
      for (let batches = 0; entries && batches < batchesMax; batches += 1) {
        await this.#drainBatch(entries)
        if (signal.aborted) return
        entries = await this.#read()
      }
    } finally {
      // A lease that cannot be released expires by itself.
      await this.#options.redis
        .evaluate(spoolScripts.release, [spoolKeys.lease], [this.#token])
        .catch(() => undefined)
    }
  }

  /** Reads the next entries. Undefined if the spool is empty or leased by another process. */
  async #read(): Promise<readonly SpoolEntry[] | undefined> {
    const { bytesMax } = eventBatch
    const reply = await this.#options.redis.evaluate(
      spoolScripts.read,
      [spoolKeys.events, spoolKeys.lease],
      [this.#token, String(leaseMs), this.#from, String(this.#rows), String(bytesMax)],
    )
    const [, entries] = reply as [string, (readonly unknown[])?]
    return entries?.map(decodeEntry)
  }

  async #drainBatch(entries: readonly SpoolEntry[]): Promise<void> {
    // At the end of the spool, starts again with the entries that were skipped.
    if (entries.length === 0) {
      this.#from = start
      return
    }
    const readable = uniqueEvents(entries)
    const outcome = readable.length === 0 ? nothingStored : await this.#options.storeBatch(readable)
    const outcomes = decideOutcomes(entries, readable, outcome)
    await this.#remove(outcomes)
    if (outcome.kind === 'unavailable' || outcomes.length === 0) {
      this.#yieldTo(entries)
      throw new Error('spool drain: Postgres stored no event of the batch')
    }
    this.#rows = Math.min(this.#rows * 2, eventBatch.itemsMax)
  }

  async #remove(outcomes: readonly Outcome[]): Promise<void> {
    if (outcomes.length === 0) return
    const args = outcomes.flatMap(({ entry, reason }) => [entry.entryId, entry.eventId, reason])
    const removed = (await this.#options.redis.evaluate(
      spoolScripts.remove,
      countedKeys,
      args,
    )) as readonly number[]
    outcomes.forEach(({ entry: { eventId }, reason }, index) => {
      if (reason !== '' && removed[index] === 1) this.#options.onDead({ eventId, reason })
    })
  }

  /**
   * Halves the next batch after a failed batch, and skips an entry that failed in a batch of its own. Otherwise a poison message that makes
   * Postgres fail, and is not rejected, would block other entries.
   */
  #yieldTo(entries: readonly SpoolEntry[]): void {
    const [first] = entries
    if (entries.length > 1) this.#rows = Math.ceil(entries.length / 2)
    else if (first) this.#from = `(${first.entryId}`
  }
}

/** Outcome of a spool entry. With a reason, the entry is moved to the dead stream. */
interface Outcome {
  readonly entry: SpoolEntry
  readonly reason: DeadEntry['reason'] | ''
}

const nothingStored: BatchOutcome = { kind: 'completed', acceptances: [] }

/** Returns the first event of each dedupe key, sorted by key. */
function uniqueEvents(entries: readonly SpoolEntry[]): ReceivedEvent[] {
  const byKey = new Map<string, ReceivedEvent>()
  for (const { event } of entries) {
    if (event && !byKey.has(event.dedupeKey)) byKey.set(event.dedupeKey, event)
  }
  return [...byKey.values()].sort((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1))
}

function decideOutcomes(
  entries: readonly SpoolEntry[],
  stored: readonly ReceivedEvent[],
  outcome: BatchOutcome,
): Outcome[] {
  const acceptances = outcome.kind === 'completed' ? outcome.acceptances : []
  const byKey = new Map(stored.map((event, index) => [event.dedupeKey, { event, is: acceptances[index] }]))
  return entries.flatMap((entry): Outcome[] => {
    if (!entry.event) return [{ entry, reason: 'unreadable' }]
    const acceptance = byKey.get(entry.event.dedupeKey)
    if (acceptance?.is === 'stored' || acceptance?.is === 'duplicate') return [{ entry, reason: '' }]
    // Moves only the rejected event to the dead stream. Another entry with the same dedupe key can still be accepted, so it stays for the
    // next batch.
    const isRefused = acceptance?.is === 'refused' && acceptance.event === entry.event
    return isRefused ? [{ entry, reason: 'refused' }] : []
  })
}

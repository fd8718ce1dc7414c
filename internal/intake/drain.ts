import { randomToken } from '#internal/base/index.ts'
import type { Acceptance, BatchOutcome, ReceivedEvent } from '#internal/events/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { decodeEntry, type SpoolEntry } from './spool-entry.ts'
import { countedKeys, spoolKeys, spoolScripts } from './spool-scripts.ts'

/** An entry that went to the dead stream. */
export interface DeadEntry {
  /** As the entry has it, which need not be an event's id; '' where there is none. */
  readonly eventId: string
  /** `unreadable`: no event could be made of it. `refused`: Postgres will never take it. */
  readonly reason: 'unreadable' | 'refused'
}

/** What draining works with. */
export interface DrainOptions {
  /** The spool's own. */
  readonly redis: RedisConnection
  /** Stores events sorted by dedupe key, no key twice, and begins no new round for one that failed. Never throws. */
  storeBatch(events: readonly ReceivedEvent[]): Promise<BatchOutcome>
  /** Hears of each entry that was set aside, once. Must not throw. */
  onDead(entry: DeadEntry): void
}

const leaseMs = 10_000
const rowsMax = 500
const bytesMax = 4 * 1024 * 1024
/** Batches of one turn: more than a full spool has. */
const batchesMax = 10_000
const start = '-'

/**
 * Brings what was spooled into Postgres, in order. An entry goes only after the commit that holds its event; what is done twice,
 * since somebody else drains or a process ended in between, meets its own dedupe keys. Any number of processes may run one: a
 * lease lets one of them work at a time, and losing it does no harm.
 */
export class Drain {
  readonly #options: DrainOptions
  readonly #token = randomToken()
  #rows = rowsMax
  #from = start

  constructor(options: DrainOptions) {
    this.#options = options
  }

  /**
   * Drains until the spool is empty, the signal fires, or somebody else is at it. For `superviseLoop`: one call of Redis while
   * there is nothing to do.
   * @throws RedisUnavailable, and an Error when Postgres took nothing: all that was not stored stays where it is
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
      await this.#release()
    }
  }

  /** Undefined when there is nothing, or nothing to be done by us. */
  async #read(): Promise<readonly SpoolEntry[] | undefined> {
    const reply = await this.#options.redis.evaluate(
      spoolScripts.read,
      [spoolKeys.events, spoolKeys.lease],
      [this.#token, String(leaseMs), this.#from, String(this.#rows), String(bytesMax)],
    )
    const [, entries] = reply as [string, (readonly unknown[])?]
    return entries?.map(decodeEntry)
  }

  async #drainBatch(entries: readonly SpoolEntry[]): Promise<void> {
    // The end was reached from somewhere in the middle: what was passed over has its turn again.
    if (entries.length === 0) {
      this.#from = start
      return
    }
    const readable = readableByKey(entries)
    const outcome = readable.length === 0 ? nothingStored : await this.#options.storeBatch(readable)
    const fates = decideFates(entries, readable, outcome)
    await this.#settle(fates)
    if (outcome.kind === 'unavailable' || fates.length === 0) {
      this.#yieldTo(entries)
      throw new Error('Postgres took nothing of the spool')
    }
    this.#rows = Math.min(this.#rows * 2, rowsMax)
  }

  async #settle(fates: readonly Fate[]): Promise<void> {
    if (fates.length === 0) return
    const args = fates.flatMap(({ entry, reason }) => [entry.entryId, entry.eventId, reason])
    const reply = await this.#options.redis.evaluate(spoolScripts.settle, countedKeys, args)
    const settled = reply as readonly number[]
    fates.forEach(({ entry: { eventId }, reason }, index) => {
      if (reason !== '' && settled[index] === 1) this.#options.onDead({ eventId, reason })
    })
  }

  /**
   * The next try is for fewer, and after one alone for those behind it: what makes Postgres fail each time without its ever
   * refusing it must not hold up the rest.
   */
  #yieldTo(entries: readonly SpoolEntry[]): void {
    const [first] = entries
    if (entries.length > 1) this.#rows = Math.ceil(entries.length / 2)
    else if (first) this.#from = `(${first.entryId}`
  }

  /** A lease that cannot be given back ends by itself. */
  async #release(): Promise<void> {
    const { redis } = this.#options
    await redis.evaluate(spoolScripts.release, [spoolKeys.lease], [this.#token]).catch(() => undefined)
  }
}

/** What becomes of an entry that does not stay: removed, or set aside for a reason. */
interface Fate {
  readonly entry: SpoolEntry
  readonly reason: DeadEntry['reason'] | ''
}

const nothingStored: BatchOutcome = { kind: 'settled', acceptances: [] }

function readableByKey(entries: readonly SpoolEntry[]): ReceivedEvent[] {
  const byKey = new Map<string, ReceivedEvent>()
  for (const { event } of entries) {
    if (event && !byKey.has(event.dedupeKey)) byKey.set(event.dedupeKey, event)
  }
  return [...byKey.values()].sort((a, b) => (a.dedupeKey < b.dedupeKey ? -1 : 1))
}

function decideFates(
  entries: readonly SpoolEntry[],
  stored: readonly ReceivedEvent[],
  outcome: BatchOutcome,
): Fate[] {
  const acceptances = outcome.kind === 'settled' ? outcome.acceptances : []
  const byKey = new Map(stored.map((event, index) => [event.dedupeKey, { event, is: acceptances[index] }]))
  return entries.flatMap((entry): Fate[] => {
    if (!entry.event) return [{ entry, reason: 'unreadable' }]
    const acceptance = byKey.get(entry.event.dedupeKey)
    if (isCommitted(acceptance?.is)) return [{ entry, reason: '' }]
    // Another entry of the same key may be one that Postgres takes: it stays for the next batch.
    return acceptance?.is === 'refused' && acceptance.event === entry.event
      ? [{ entry, reason: 'refused' }]
      : []
  })
}

function isCommitted(acceptance: Acceptance | undefined): boolean {
  return acceptance === 'stored' || acceptance === 'duplicate'
}

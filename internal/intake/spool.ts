import type { ReceivedEvent } from '#internal/events/index.ts'
import { type RedisConnection, type RedisDurability, RedisUnavailable } from '#internal/storage/index.ts'
import { encodeEvent } from './spool-entry.ts'
import { countedKeys, spoolKeys, spoolScripts } from './spool-scripts.ts'
import { takeBatch } from './take-batch.ts'

/**
 * Why an event was not spooled. `away`: Redis did not answer. `volatile`: Redis does not sync before it answers. `full`: the
 * spool or Redis is. `share`: so much of one tenant waits that the rest is left to the others. `unconfirmed`: no replica had
 * the event in time.
 */
export type SpoolRefusal = 'away' | 'volatile' | 'full' | 'share' | 'unconfirmed'

/** What a spool works with. */
export interface SpoolOptions {
  /**
   * One of the spool's own, with a deadline of 1 500 ms: waiting for a replica holds up whatever is sent behind it, and an event
   * of 25 MiB takes most of a second to be sent and synced.
   */
  readonly redis: RedisConnection
  /** Somebody vouches that Redis keeps what it acknowledges, whatever its settings say or whether they can be read. */
  readonly vouched: boolean
  /** Hears of events that were refused: why, how many, and of an error that is not Redis being away. Must not throw. */
  onRefused?(reason: SpoolRefusal, events: number, error?: unknown): void
  /** Most bytes that wait or are set aside; default 256 MiB. At most a quarter of them may wait for one tenant. */
  readonly bytesMax?: number
  /** How long a replica may take to have an event, below the connection's deadline, ms; default 500. */
  readonly replicaMsMax?: number
  /** How long what Redis said of its settings is believed before it is asked again, ms; default 10 000. */
  readonly believedMsMax?: number
}

/** What is in the spool. */
export interface SpoolStats {
  readonly entries: number
  readonly bytes: number
  /** Since the oldest entry came in, by Redis' clock; 0 for an empty spool. */
  readonly oldestAgeMs: number
  /** What Postgres refused or nobody could read. */
  readonly deadEntries: number
  readonly deadBytes: number
}

const defaultBytesMax = 256 * 1024 * 1024
/** What one tenant may fill: two largest events, and more than enough of the usual ones. */
const tenantShare = 0.25
const defaultReplicaMsMax = 500
const defaultBelievedMsMax = 10_000
/** After a replica was too slow the next events are refused at once, since each would stay behind as a duplicate. */
const restMs = 500

interface Waiting {
  readonly event: ReceivedEvent
  settle(fate: 'queued' | 'unavailable'): void
}

/**
 * Keeps events in Redis while Postgres is away, where Redis keeps what it acknowledges. What is answered `queued` is on disk,
 * and at one replica if there is any. What is answered `unavailable` may be in the spool nevertheless, when the answer was late
 * or no replica confirmed: the provider sends it again, and draining drops the one that comes second.
 */
export class Spool {
  readonly #options: SpoolOptions
  #waiting: Waiting[] = []
  #writing = false
  #known: { readonly durability: RedisDurability; readonly atMs: number } | undefined
  #restUntilMs = 0

  constructor(options: SpoolOptions) {
    this.#options = options
  }

  /**
   * Adds an event; those that come together, or while others are written, share a round trip. Settles within three of the
   * connection's deadlines and never rejects. Bounded by its callers: each waits with its body's room taken.
   */
  append(event: ReceivedEvent): Promise<'queued' | 'unavailable'> {
    const { promise, resolve } = Promise.withResolvers<'queued' | 'unavailable'>()
    this.#waiting.push({ event, settle: resolve })
    if (!this.#writing) {
      this.#writing = true
      queueMicrotask(() => void this.#writeAll())
    }
    return promise
  }

  /** Reads what is in the spool: one cheap call. @throws RedisUnavailable */
  async stats(): Promise<SpoolStats> {
    const reply = await this.#options.redis.evaluate(spoolScripts.stats, countedKeys, [])
    const [entries = 0, bytes = 0, oldestAgeMs = 0, deadEntries = 0, deadBytes = 0] = reply as number[]
    return { entries, bytes, oldestAgeMs, deadEntries, deadBytes }
  }

  async #writeAll(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = takeBatch(this.#waiting)
      const refusal = await this.#write(batch)
      // Those behind would only wait for the same: their callers have little time.
      if (refusal) this.#refuse(refusal, [...batch, ...this.#waiting.splice(0)])
    }
    this.#writing = false
  }

  /** Settles each event's fate, or gives the reason why none of them has one. */
  async #write(batch: readonly Waiting[]): Promise<Refusal | undefined> {
    if (performance.now() < this.#restUntilMs) return { reason: 'unconfirmed' }
    try {
      const before = await this.#readDurability()
      if (!this.#keeps(before)) return { reason: 'volatile' }
      const { bytesMax = defaultBytesMax, replicaMsMax = defaultReplicaMsMax, redis } = this.#options
      const bounds = [String(bytesMax), String(Math.floor(bytesMax * tenantShare))]
      const args = [...bounds, ...batch.flatMap(({ event }) => encodeEvent(event))]
      const waitMs = before.replicas === 0 ? 0 : replicaMsMax
      const kept = await redis.evaluateKept(spoolScripts.append, countedKeys, args, waitMs)
      // What the server that took the events says counts; it may be another than the one asked before.
      this.#believe(kept.durability)
      if (!this.#keeps(kept.durability)) return { reason: 'volatile' }
      if (kept.durability.replicas !== 0 && kept.replicasReached === 0) {
        this.#restUntilMs = performance.now() + restMs
        return { reason: 'unconfirmed' }
      }
      this.#settle(batch, kept.reply as readonly number[])
      return undefined
    } catch (error) {
      this.#known = undefined
      if (!(error instanceof RedisUnavailable)) return { reason: 'away', error }
      return { reason: error.reason === 'full' ? 'full' : 'away' }
    }
  }

  #settle(batch: readonly Waiting[], added: readonly number[]): void {
    batch.forEach((waiting, index) => {
      if (added[index] === 1) waiting.settle('queued')
      else this.#refuse({ reason: added[index] === -1 ? 'share' : 'full' }, [waiting])
    })
  }

  #refuse({ reason, error }: Refusal, refused: readonly Waiting[]): void {
    this.#options.onRefused?.(reason, refused.length, error)
    for (const { settle } of refused) settle('unavailable')
  }

  async #readDurability(): Promise<RedisDurability> {
    const { redis, believedMsMax = defaultBelievedMsMax } = this.#options
    if (this.#known && performance.now() - this.#known.atMs < believedMsMax) return this.#known.durability
    return this.#believe(await redis.durability(spoolKeys.events))
  }

  #believe(durability: RedisDurability): RedisDurability {
    this.#known = { durability, atMs: performance.now() }
    return durability
  }

  /** A server that does not tell of its replicas could lose everything with the next failover. */
  #keeps({ syncsFirst, replicas }: RedisDurability): boolean {
    return (syncsFirst || this.#options.vouched) && replicas !== undefined
  }
}

interface Refusal {
  readonly reason: SpoolRefusal
  readonly error?: unknown
}

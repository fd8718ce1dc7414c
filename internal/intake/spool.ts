import { isTenantId, parseEventId } from '#internal/base/index.ts'
import type { ReceivedEvent } from '#internal/events/index.ts'
import {
  BatchWriter,
  defineScript,
  type RedisConnection,
  type RedisDurability,
  RedisUnavailable,
} from '#internal/storage/index.ts'
import { providerNames } from '#internal/tenants/index.ts'
import { eventBatch } from './event-queue.ts'
import spoolLua from './spool.lua' with { type: 'text' }

/** Redis keys of the spool, described in `spool.lua`. */
export const spoolKeys = {
  events: '{latchkey:spool}:events',
  dead: '{latchkey:spool}:dead',
  bytes: '{latchkey:spool}:bytes',
  tenants: '{latchkey:spool}:tenants',
  lease: '{latchkey:spool}:lease',
} as const

/** Keys of the scripts that count bytes. */
export const countedKeys: readonly string[] = [
  spoolKeys.events,
  spoolKeys.dead,
  spoolKeys.bytes,
  spoolKeys.tenants,
]

const spoolScript = (name: string, flags: string) =>
  defineScript(`spool-${name}`, flags, [spoolLua, `return ${name}()`])

/** One script per operation. */
export const spoolScripts = {
  append: spoolScript('append', ''),
  // Draining frees memory, so it must work while Redis is full.
  read: spoolScript('read', 'allow-oom'),
  remove: spoolScript('remove', 'allow-oom'),
  release: spoolScript('release', 'allow-oom'),
  stats: spoolScript('stats', 'no-writes'),
} as const

/** Entry of the spool as read. */
export interface SpoolEntry {
  /** Id in the stream. */
  readonly entryId: string
  /** As stored, valid or not; '' if missing. */
  readonly eventId: string
  /** Undefined for an unreadable entry. */
  readonly event: ReceivedEvent | undefined
}

/** Everything but id and payload, as JSON. The payload is stored as it is: escaping would make it a tenth longer. */
type SpooledFacts = Omit<ReceivedEvent, 'id' | 'payload'>

/** Encodes an event as id, facts, payload and tenant; the tenant is repeated for its share. `decodeEntry` restores every byte. */
export function encodeEvent(event: ReceivedEvent): readonly [string, string, string, string] {
  const { id, payload, ...facts } = event
  return [id, JSON.stringify(facts satisfies SpooledFacts), payload, event.tenantId]
}

/**
 * Decodes an entry `[entry id, [name, value, …]]`. Never throws. Unknown facts of a newer version are kept; a missing fact makes the
 * entry unreadable.
 */
export function decodeEntry(reply: unknown): SpoolEntry {
  const [entryId, fields] = reply as [string, readonly string[]]
  const valueOf = (name: string) => {
    const at = fields.findIndex((field, index) => index % 2 === 0 && field === name)
    return at < 0 ? undefined : fields[at + 1]
  }
  const [eventId = '', text, payload] = [valueOf('id'), valueOf('facts'), valueOf('payload')]
  const id = parseEventId(eventId)
  const facts = text === undefined ? undefined : parseFacts(text)
  const isReadable = id !== undefined && facts !== undefined && payload !== undefined
  return { entryId, eventId, event: isReadable ? { ...facts, id, payload } : undefined }
}

function parseFacts(text: string): SpooledFacts | undefined {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value !== 'object' || value === null) return undefined
    const fields = value as Record<string, unknown>
    const isValid = Object.entries(factChecks).every(([name, check]) => check(fields[name]))
    return isValid ? (value as SpooledFacts) : undefined
  } catch {
    return undefined
  }
}

const timeMsMax = Date.UTC(9999, 11, 31)
const isText = (value: unknown) => typeof value === 'string'
const isLike = (pattern: RegExp) => (value: unknown) => typeof value === 'string' && pattern.test(value)
const isWhole = (max: number) => (value: unknown) =>
  typeof value === 'number' && Number.isInteger(value) && value >= 0 && value <= max
const isDay = (value: unknown) =>
  isLike(/^\d{4}-\d\d-\d\d$/)(value) && !Number.isNaN(Date.parse(String(value)))
const isTrueOrAbsent = (value: unknown) => value === undefined || value === true

/** One check per fact; the type makes sure that a new fact is not forgotten. */
const factChecks: { readonly [Fact in keyof SpooledFacts]-?: (value: unknown) => boolean } = {
  dedupeKey: isLike(/^[0-9a-f]{32}$/),
  tenantId: (value) => typeof value === 'string' && isTenantId(value),
  provider: (value) => providerNames.some((name) => name === value),
  sourceEventId: isText,
  rawType: isText,
  type: isText,
  occurredAtMs: isWhole(timeMsMax),
  receivedAtMs: isWhole(timeMsMax),
  headers: isText,
  payloadBytes: isWhole(Number.MAX_SAFE_INTEGER),
  expiresOn: isDay,
  payloadExpiresOn: isDay,
  dedupeExpiresOn: isDay,
  state: (value) => value === 'accepted' || value === 'verified',
  overLimit: isTrueOrAbsent,
  retriesOnRedelivery: isTrueOrAbsent,
}

/**
 * Reason for refusing an event. `away`: Redis did not answer. `volatile`: Redis does not sync before it answers. `full`: the bound of
 * the spool, or Redis' memory. `share`: the bound of one tenant. `unconfirmed`: no replica confirmed in time.
 */
export type SpoolRefusal = 'away' | 'volatile' | 'full' | 'share' | 'unconfirmed'

/** Dependencies and bounds of the spool. */
export interface SpoolOptions {
  /** A connection of its own, with a deadline of 1 500 ms: WAIT blocks what follows, and 25 MiB take most of a second to send and sync. */
  readonly redis: RedisConnection
  /** `LATCHKEY_REDIS_SPOOL_DURABLE`: the operator guarantees durability, whatever Redis' settings say. */
  readonly vouched: boolean
  /** Called for refused events, with an error if it is not Redis being unavailable. Must not throw. */
  onRefused?(reason: SpoolRefusal, events: number, error?: unknown): void
  /** Bytes of waiting and dead entries; default 256 MiB. One tenant may use a quarter. */
  readonly bytesMax?: number
  /** Time for a replica to confirm, below the connection's deadline, ms; default 500. */
  readonly replicaMsMax?: number
  /** Time that Redis' durability settings are cached, ms; default 10 000. */
  readonly believedMsMax?: number
}

/** Contents of the spool. */
export interface SpoolStats {
  readonly entries: number
  readonly bytes: number
  /** By Redis' clock; 0 for an empty spool. */
  readonly oldestAgeMs: number
  /** Entries that were unreadable or that Postgres rejects. */
  readonly deadEntries: number
  readonly deadBytes: number
}

const defaultBytesMax = 256 * 1024 * 1024
/** Holds two events of maximum size. */
const tenantShare = 0.25
const defaultReplicaMsMax = 500
const defaultBelievedMsMax = 10_000
/** Time for which events are refused at once after a slow replica, since each would stay behind as a duplicate. */
const replicaRestMs = 500

interface Waiting {
  readonly event: ReceivedEvent
  resolve(result: 'queued' | 'unavailable'): void
}

interface Refusal {
  readonly reason: SpoolRefusal
  readonly error?: unknown
}

/**
 * Keeps events in Redis while Postgres is unavailable, if Redis is durable. `queued` means: synced to disk, and on a replica if there
 * is one. An event answered `unavailable` may be in the spool (late answer, unconfirmed replica): the provider sends it again, and the
 * drain drops the second one.
 */
export class Spool {
  readonly #options: SpoolOptions
  readonly #writer: BatchWriter<Waiting>
  #known: { readonly durability: RedisDurability; readonly atMs: number } | undefined
  #restUntilMs = 0

  constructor(options: SpoolOptions) {
    this.#options = options
    this.#writer = new BatchWriter<Waiting>({
      ...eventBatch,
      deferred: true,
      write: (batch) => this.#write(batch),
    })
  }

  /**
   * Appends an event; concurrent events share a round trip. Ends within three of the connection's deadlines; never rejects. Bounded by
   * its callers, who wait with their body's memory charged.
   */
  append(event: ReceivedEvent): Promise<'queued' | 'unavailable'> {
    return new Promise((resolve) => this.#writer.add({ event, resolve }))
  }

  /** Reads the contents by one cheap call. @throws RedisUnavailable */
  async stats(): Promise<SpoolStats> {
    const reply = await this.#options.redis.evaluate(spoolScripts.stats, countedKeys, [])
    const [entries = 0, bytes = 0, oldestAgeMs = 0, deadEntries = 0, deadBytes = 0] = reply as number[]
    return { entries, bytes, oldestAgeMs, deadEntries, deadBytes }
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    const added = await this.#append(batch)
    // Those behind would fail as well, and their callers' time is short.
    if ('reason' in added) return this.#refuse(added, [...batch, ...this.#writer.takeWaiting()])
    batch.forEach((waiting, index) => {
      if (added[index] === 1) waiting.resolve('queued')
      else this.#refuse({ reason: added[index] === -1 ? 'share' : 'full' }, [waiting])
    })
  }

  /** Returns the script's reply per event, or why none of them counts as kept. */
  async #append(batch: readonly Waiting[]): Promise<readonly number[] | Refusal> {
    if (performance.now() < this.#restUntilMs) return { reason: 'unconfirmed' }
    try {
      const before = await this.#readDurability()
      if (!this.#isDurable(before)) return { reason: 'volatile' }
      const { bytesMax = defaultBytesMax, replicaMsMax = defaultReplicaMsMax, redis } = this.#options
      const bounds = [String(bytesMax), String(Math.floor(bytesMax * tenantShare))]
      const args = [...bounds, ...batch.flatMap(({ event }) => encodeEvent(event))]
      const waitMs = before.replicas === 0 ? 0 : replicaMsMax
      const kept = await redis.evaluateKept(spoolScripts.append, countedKeys, args, waitMs)
      // The server that took the events decides; after a failover it is another than the one asked before.
      this.#believe(kept.durability)
      if (!this.#isDurable(kept.durability)) return { reason: 'volatile' }
      if (kept.durability.replicas !== 0 && kept.replicasReached === 0) {
        this.#restUntilMs = performance.now() + replicaRestMs
        return { reason: 'unconfirmed' }
      }
      return kept.reply as readonly number[]
    } catch (error) {
      this.#known = undefined
      if (!(error instanceof RedisUnavailable)) return { reason: 'away', error }
      return { reason: error.reason === 'full' ? 'full' : 'away' }
    }
  }

  #refuse({ reason, error }: Refusal, refused: readonly Waiting[]): void {
    this.#options.onRefused?.(reason, refused.length, error)
    for (const { resolve } of refused) resolve('unavailable')
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

  /** A server that hides its replicas could lose everything in the next failover. */
  #isDurable({ syncsFirst, replicas }: RedisDurability): boolean {
    return (syncsFirst || this.#options.vouched) && replicas !== undefined
  }
}

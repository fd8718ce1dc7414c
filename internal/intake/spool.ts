import { isTenantId, parseEventId } from '#internal/base/index.ts'
import { type EventOrigin, fromProvider, type ReceivedEvent } from '#internal/events/index.ts'
import {
  BatchWriter,
  defineScript,
  type RedisConnection,
  type RedisDurability,
  RedisUnavailable,
} from '#internal/storage/index.ts'
import { parseProviderName } from '#internal/tenants/index.ts'
import { eventBatch } from './event-queue.ts'
import spoolLua from './spool.lua' with { type: 'text' }

/** Redis keys of the spool; `spool.lua` describes them. */
export const spoolKeys = {
  events: '{latchkey:spool}:events',
  dead: '{latchkey:spool}:dead',
  bytes: '{latchkey:spool}:bytes',
  tenants: '{latchkey:spool}:tenants',
  lease: '{latchkey:spool}:lease',
} as const

/** Redis keys that scripts need to read or change the byte counts. */
export const countedKeys: readonly string[] = [
  spoolKeys.events,
  spoolKeys.dead,
  spoolKeys.bytes,
  spoolKeys.tenants,
]

const spoolScript = (name: string, flags: string) =>
  defineScript(`spool-${name}`, flags, [spoolLua, `return ${name}()`])

export const spoolScripts = {
  append: spoolScript('append', ''),
  // Draining frees memory, so this script must run even while Redis is full.
  read: spoolScript('read', 'allow-oom'),
  remove: spoolScript('remove', 'allow-oom'),
  release: spoolScript('release', 'allow-oom'),
  stats: spoolScript('stats', 'no-writes'),
} as const

export interface SpoolEntry {
  readonly entryId: string
  /** Event id as stored, which can be invalid; '' if it is missing. */
  readonly eventId: string
  /** Undefined if the entry is unreadable. */
  readonly event: ReceivedEvent | undefined
}

/**
 * All fields of an event except id and payload, as JSON. The payload is stored unescaped, since escaping would make it about a tenth
 * longer. `origin` is absent for a provider's call.
 */
type SpooledFacts = Omit<ReceivedEvent, 'id' | 'payload' | 'origin'> & {
  readonly origin?: Exclude<EventOrigin, { readonly kind: 'provider' }>
}

/**
 * Encodes an event as four values: id, all other fields as JSON (`SpooledFacts`), payload and tenant. The tenant is repeated as a separate
 * field, so that the script can count the bytes of each tenant. `decodeEntry` restores every byte.
 */
export function encodeEvent(event: ReceivedEvent): readonly [string, string, string, string] {
  const { id, payload, origin, ...rest } = event
  const facts: SpooledFacts = { ...rest, ...(origin.kind !== 'provider' && { origin }) }
  return [id, JSON.stringify(facts), payload, event.tenantId]
}

/**
 * Decodes an entry `[entry id, [name, value, …]]`. Never throws. Keeps unknown facts of a newer version. A missing fact makes the entry
 * unreadable.
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
  const event = isReadable ? { origin: fromProvider, ...facts, id, payload } : undefined
  return { entryId, eventId, event }
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
const isOriginOrAbsent = (value: unknown) => {
  if (value === undefined) return true
  if (typeof value !== 'object' || value === null) return false
  const { kind, actor, simulationId } = value as Partial<Record<string, unknown>>
  return kind === 'simulation'
    ? isText(simulationId)
    : (kind === 'service' || kind === 'test') && isText(actor)
}
const isTrueOrAbsent = (value: unknown) => value === undefined || value === true

/** Checks of each field of a spooled event. The type ensures that no field is missing here. */
const factChecks: { readonly [Fact in keyof SpooledFacts]-?: (value: unknown) => boolean } = {
  dedupeKey: isLike(/^[0-9a-f]{32}$/),
  tenantId: (value) => typeof value === 'string' && isTenantId(value),
  provider: (value) => typeof value === 'string' && parseProviderName(value) !== undefined,
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
  origin: isOriginOrAbsent,
  state: (value) => value === 'accepted' || value === 'verified',
  overLimit: isTrueOrAbsent,
  retriesOnRedelivery: isTrueOrAbsent,
  isPullOnly: isTrueOrAbsent,
}

/**
 * Reason for refusing an event. `away`: Redis did not respond. `volatile`: Redis does not sync to disk before it responds. `full`: the
 * spool or the memory of Redis is full. `share`: the tenant has used its share. `unconfirmed`: no replica confirmed in time.
 */
export type SpoolRefusal = 'away' | 'volatile' | 'full' | 'share' | 'unconfirmed'

/** Dependencies and limits of the spool. */
export interface SpoolOptions {
  /** A separate connection with a deadline of 1 500 ms: WAIT blocks later commands, and 25 MiB take most of a second to send and sync. */
  readonly redis: RedisConnection
  /** True if the operator guarantees durability, regardless of the settings of Redis (`LATCHKEY_REDIS_SPOOL_DURABLE`). */
  readonly vouched: boolean
  /** Called for refused events, with the error unless Redis is unavailable. Must not throw. */
  onRefused?(reason: SpoolRefusal, events: number, error?: unknown): void
  /** Maximum bytes of waiting and dead entries; default 256 MiB. One tenant can use a quarter. */
  readonly bytesMax?: number
  /** Time in milliseconds for a replica to confirm; default 500. Must be below the deadline of the connection. */
  readonly replicaMsMax?: number
  /** Time in milliseconds for which the durability settings of Redis are cached; default 10 000. */
  readonly believedMsMax?: number
}

/** Number, size and age of the spool's entries. */
export interface SpoolStats {
  readonly entries: number
  readonly bytes: number
  /** Age of the oldest entry by the clock of Redis; 0 for an empty spool. */
  readonly oldestAgeMs: number
  /** Number of entries that are unreadable or that Postgres rejects. */
  readonly deadEntries: number
  readonly deadBytes: number
}

/** Reads the number, size and age of the spool's entries with one cheap call. @throws RedisUnavailable */
export async function readSpoolStats(redis: Pick<RedisConnection, 'evaluate'>): Promise<SpoolStats> {
  const reply = await redis.evaluate(spoolScripts.stats, countedKeys, [])
  const [entries = 0, bytes = 0, oldestAgeMs = 0, deadEntries = 0, deadBytes = 0] = reply as number[]
  return { entries, bytes, oldestAgeMs, deadEntries, deadBytes }
}

const defaultBytesMax = 256 * 1024 * 1024
/** Part of the spool's bytes that one tenant can use. Two events of maximum size fit into it. */
const tenantShare = 0.25
const defaultReplicaMsMax = 500
const defaultBelievedMsMax = 10_000
/**
 * Time for which events are refused without being written, after no replica has confirmed in time. A written event stays in the spool
 * although its call is refused, and becomes a duplicate when the provider repeats the call.
 */
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
 * Keeps events in Redis while Postgres is unavailable, if Redis is durable. `queued` means that the event is synced to disk, and stored on
 * a replica if Redis has one. An event with the result `unavailable` can still be in the spool (late response, unconfirmed replica): the
 * provider sends the event again, and the drain drops the duplicate.
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
      deferred: 'microtask',
      write: (batch) => this.#write(batch),
    })
  }

  /**
   * Appends an event. Concurrent events share a round trip. Resolves within three times the deadline of the connection; never rejects. The
   * limited memory for bodies also limits the number of waiting events: each waiting call keeps the memory of its body reserved.
   */
  append(event: ReceivedEvent): Promise<'queued' | 'unavailable'> {
    return new Promise((resolve) => this.#writer.add({ event, resolve }))
  }

  /**
   * Reads the number, size and age of the spool's entries with one cheap call.
   * @throws RedisUnavailable
   */
  stats(): Promise<SpoolStats> {
    return readSpoolStats(this.#options.redis)
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    const added = await this.#append(batch)
    // Also refuses the events that wait for the next batch, since they would fail as well and their callers have little time left.
    if ('reason' in added) return this.#refuse(added, [...batch, ...this.#writer.takeWaiting()])
    batch.forEach((waiting, index) => {
      if (added[index] === 1) waiting.resolve('queued')
      else this.#refuse({ reason: added[index] === -1 ? 'share' : 'full' }, [waiting])
    })
  }

  /** Appends a batch. Returns the Redis script's reply for each event, or the reason why no event was kept. */
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
      // Caches the durability of the server that stored the events. After a failover, this can be another server than the one checked
      // before.
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

  /** Requires that the server reports its replicas: without a confirmed replica, the next failover could lose all events. */
  #isDurable({ syncsFirst, replicas }: RedisDurability): boolean {
    return (syncsFirst || this.#options.vouched) && replicas !== undefined
  }
}

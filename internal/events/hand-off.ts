import {
  type Day,
  type EventId,
  isTenantId,
  parseEventId,
  receivedAtMsOf,
  type TenantId,
} from '#internal/base/index.ts'
import { type Pool, type RedisConnection, readDatabaseId } from '#internal/storage/index.ts'
import type { ProviderName } from '#internal/tenants/index.ts'
import type { ClaimedDelivery, EventContent } from './claim.ts'
import { leaseMsMax } from './lease.ts'
import {
  callbackDestination,
  destinationOf,
  destinationOfQueue,
  isQueueId,
  type OwnProvider,
  type QueueId,
  queueIdCharsMax,
  queueIdOf,
  type ReceivedEvent,
  sizeOfEvent,
} from './model.ts'

// Hand-off: intake commits the delivery of a new event under the lease of a forwarder, and sends the event to it. The forwarder then calls
// the callback without a claim and without reading the event. Forwarders announce on a separate channel which deliveries they accept.
// Messages may be lost: the lease then ends, and the delivery is claimed.

/**
 * Returns a function that finds the Redis channel of forwarders' offers. The name contains the id of the database, since installations can
 * share a Redis, and an event must not reach another installation's forwarder. The function keeps the id after its first success.
 */
export function offersChannelFrom(pool: Pool): () => Promise<string> {
  let channel: string | undefined
  return async () => (channel ??= `latchkey:offers:${await readDatabaseId(pool)}`)
}

/** Returns the Redis channel of the events that are handed to a forwarder. */
export function handOffChannelOf(leaseToken: string): string {
  return `latchkey:handed:${leaseToken}`
}

/** Offer: the message by which a forwarder announces to intake which deliveries it accepts. */
export interface HandOffOffer {
  /** Owner token of the forwarder's leases. */
  readonly leaseToken: string
  /** Sequence number. A hand-off repeats it, so that the forwarder counts the lease from this offer, which is older than the hand-off. */
  readonly number: number
  readonly leaseMs: number
  /** Tenant queues whose deliveries the forwarder does not accept, or `all`. */
  readonly refused: readonly QueueId[] | 'all'
}

/** Maximum number of tenant queues that an offer can name as refused. A forwarder that refuses more sends an offer that refuses all. */
export const refusedMax = 256
/** Maximum payload and headers of a handed-off event. Larger events would displace others in the memory of Redis. */
const eventBytesMax = 16 * 1024
/** Maximum bytes of a batch's handed-off events, over all forwarders. JSON makes them at most six times as long. */
const batchBytesMax = 256 * 1024
/** Maximum events of one tenant in a batch. More events are a backlog, which claims divide fairly. */
const tenantEventsMax = 32
const messageCharsMax = 8 * 1024 * 1024
/** Time without an offer after which a forwarder gets no more events. Forwarders make an offer each second. */
const offerMsMax = 2_500
const forwardersMax = 256
/** Destination of handed-off events. Messages do not contain it, since no event for another destination is handed off. */
const handedDestination = callbackDestination

/** Encodes an offer. */
export function encodeOffer({ leaseToken, number, leaseMs, refused }: HandOffOffer): string {
  return JSON.stringify([leaseToken, number, leaseMs, refused])
}

export function decodeOffer(message: string): HandOffOffer | undefined {
  const parsed = parsedArray(message)
  const [leaseToken, number, leaseMs, refused] = parsed ?? []
  if (typeof leaseToken !== 'string' || !tokenForm.test(leaseToken)) return undefined
  if (!isOfferNumber(number) || !isLeaseMs(leaseMs)) return undefined
  const isList = Array.isArray(refused) && refused.length <= refusedMax
  if (refused !== 'all' && !(isList && refused.every(isQueueId))) return undefined
  return { leaseToken, number, leaseMs, refused }
}

const tokenForm = /^[\w-]{22}$/

function isOfferNumber(value: unknown): value is number {
  return Number.isSafeInteger(value) && Number(value) >= 1
}

/** Bounds the lease, since no other forwarder can claim the delivery until it ends. */
function isLeaseMs(value: unknown): value is number {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= leaseMsMax
}

export function encodeHandOff(
  offerNumber: number,
  leaseMs: number,
  events: readonly ReceivedEvent[],
): string {
  const rows = events.map((event) => [
    event.id,
    event.tenantId,
    event.provider,
    event.rawType,
    event.type,
    event.occurredAtMs,
    event.headers,
    event.payload,
    event.payloadBytes,
    event.payloadExpiresOn,
  ])
  return JSON.stringify([offerNumber, leaseMs, rows])
}

/** Decodes a message to a forwarder. Returns undefined for an invalid message. */
export function decodeHandOff(message: string):
  | {
      readonly offerNumber: number
      readonly leaseMs: number
      readonly events: readonly { readonly claim: ClaimedDelivery; readonly content: EventContent }[]
    }
  | undefined {
  const [offerNumber, leaseMs, rows] = parsedArray(message) ?? []
  if (!isOfferNumber(offerNumber) || !isLeaseMs(leaseMs)) return undefined
  if (!Array.isArray(rows) || !rows.every(isHandedRow)) return undefined
  return { offerNumber, leaseMs, events: rows.map(parseHandedRow) }
}

const dayForm = /^\d{4}-\d{2}-\d{2}$/
/** Types of the columns that `encodeHandOff` writes. */
const rowTypes = [
  'string',
  'string',
  'string',
  'string',
  'string',
  'number',
  'string',
  'string',
  'number',
  'string',
]

function isHandedRow(row: unknown): row is unknown[] {
  return (
    Array.isArray(row) &&
    row.length === rowTypes.length &&
    row.every((value, at) => typeof value === rowTypes[at]) &&
    parseEventId(String(row[0])) !== undefined &&
    isTenantId(String(row[1])) &&
    dayForm.test(String(row[9]))
  )
}

/** @param row one that `isHandedRow` accepts */
function parseHandedRow(row: readonly unknown[]): { claim: ClaimedDelivery; content: EventContent } {
  const [
    id,
    tenantId,
    provider,
    rawType,
    type,
    occurredAtMs,
    headers,
    payload,
    payloadBytes,
    payloadExpiresOn,
  ] = row as [
    id: EventId,
    tenantId: TenantId,
    provider: ProviderName | OwnProvider,
    rawType: string,
    type: string,
    occurredAtMs: number,
    headers: string,
    payload: string,
    payloadBytes: number,
    payloadExpiresOn: Day,
  ]
  return {
    claim: {
      eventId: id,
      destination: handedDestination,
      tenantId,
      payloadExpiresOn,
      payloadBytes,
      cycle: 1,
      attempts: 0,
      claims: 1,
      isRetry: false,
      isProbe: false,
    },
    content: {
      id,
      tenantId,
      provider,
      rawType,
      type,
      occurredAtMs,
      headers,
      payload,
      receivedAtMs: receivedAtMsOf(id),
    },
  }
}

function parsedArray(message: string): unknown[] | undefined {
  if (message.length > messageCharsMax) return undefined
  try {
    const parsed: unknown = JSON.parse(message)
    return Array.isArray(parsed) ? parsed : undefined
  } catch {
    return undefined
  }
}

export interface HandOffPlan {
  readonly leaseTokens: ReadonlyMap<EventId, string>
  /** Number of each offer at the time of the plan, by lease token. With a later one, a forwarder would assume a later end of its lease. */
  readonly offerNumbers: ReadonlyMap<string, number>
  readonly leaseMs: number
}

export interface HandOffsOptions {
  /** Resolves to whether a subscriber got the message. May reject. */
  publish(channel: string, message: string): Promise<boolean>
  readonly now?: () => number
}

interface KnownForwarder {
  readonly offer: HandOffOffer
  readonly refused: ReadonlySet<QueueId>
  readonly atMs: number
}

/** Chooses forwarders for new events from their offers, and sends them the events. Bounded to 256 forwarders. */
export class HandOffs {
  readonly #options: HandOffsOptions
  readonly #now: () => number
  readonly #forwarders = new Map<string, KnownForwarder>()
  #turn = 0

  constructor(options: HandOffsOptions) {
    this.#options = options
    this.#now = options.now ?? (() => performance.now())
  }

  /** Records an offer. Ignores an invalid message. */
  noteOffer(message: string): void {
    const offer = decodeOffer(message)
    if (offer === undefined) return
    const { leaseToken, refused } = offer
    this.#forwarders.delete(leaseToken)
    if (refused === 'all' || this.#forwarders.size >= forwardersMax) return
    this.#forwarders.set(leaseToken, { offer, refused: new Set(refused), atMs: this.#now() })
  }

  /** Chooses a forwarder for each event that can be handed off. Batches take turns among forwarders. */
  plan(events: readonly ReceivedEvent[]): HandOffPlan | undefined {
    const live = this.#liveForwarders()
    if (live.length === 0) return undefined
    const leaseTokens = new Map<EventId, string>()
    const counts = new Map<TenantId, number>()
    let bytes = 0
    for (const event of events) {
      const { id, tenantId } = event
      const eventBytes = sizeOfEvent(event)
      if (!mayHandOff(event) || eventBytes > eventBytesMax || bytes + eventBytes > batchBytesMax) continue
      const queueId = queueIdOf({ tenantId, destination: handedDestination })
      const count = (counts.get(tenantId) ?? 0) + 1
      const to = live.find(({ refused }) => !refused.has(queueId))
      if (to === undefined || count > tenantEventsMax) continue
      counts.set(tenantId, count)
      bytes += eventBytes
      leaseTokens.set(id, to.offer.leaseToken)
    }
    const leaseMs = Math.min(...live.map(({ offer }) => offer.leaseMs))
    const offerNumbers = new Map(live.map(({ offer }) => [offer.leaseToken, offer.number]))
    return leaseTokens.size === 0 ? undefined : { leaseTokens, offerNumbers, leaseMs }
  }

  /** Sends the events of a plan. Call it after the commit. A forwarder that does not listen gets no more events. Never throws. */
  send({ leaseTokens, offerNumbers, leaseMs }: HandOffPlan, events: readonly ReceivedEvent[]): void {
    for (const [leaseToken, group] of Map.groupBy(events, ({ id }) => leaseTokens.get(id) ?? '')) {
      const message = encodeHandOff(offerNumbers.get(leaseToken) ?? 0, leaseMs, group)
      const forget = () => this.#forwarders.delete(leaseToken)
      this.#options
        .publish(handOffChannelOf(leaseToken), message)
        .then((isReceived) => isReceived || forget(), forget)
    }
  }

  #liveForwarders(): KnownForwarder[] {
    const sinceMs = this.#now() - offerMsMax
    for (const [token, { atMs }] of this.#forwarders) if (atMs < sinceMs) this.#forwarders.delete(token)
    const all = [...this.#forwarders.values()]
    this.#turn = (this.#turn + 1) % Math.max(1, all.length)
    return [...all.slice(this.#turn), ...all.slice(0, this.#turn)]
  }
}

function mayHandOff({ state, origin, isPullOnly }: ReceivedEvent): boolean {
  return state === 'accepted' && !isPullOnly && destinationOf(origin.kind) === handedDestination
}

/** Redis channel for ids of tenant queues with new work, published after the commit. A lost message delays the work until the next poll. */
export const dueChannel = 'latchkey:due'

/** Ids of tenant queues with new work, or `all` if any tenant queue can have new work. */
export type DueNews = readonly QueueId[] | 'all'

const queueIdsMax = 50
/** Prefix of a tenant queue whose new events were all handed to a forwarder, so that only readers of its feed need the message. */
const handedMark = '='
const everyone = '*'
/** Maximum characters of a message: each id with its prefix, quotes and comma, and the brackets. */
const dueMessageCharsMax = queueIdsMax * (queueIdCharsMax + 4) + 2

/**
 * Notifies all forwarders that these tenant queues have work. Call it after the commit. Safe to repeat.
 * @throws RedisUnavailable; forwarders then find the work by polling
 */
export async function notifyForwarders(redis: RedisConnection, queueIds: readonly QueueId[]): Promise<void> {
  if (queueIds.length > 0) await redis.publish(dueChannel, encodeDue(queueIds))
}

/** Time during which news of handed events is gathered for one message. Readers of feeds learn of the events later by at most this time. */
const gatherMs = 10

/** Notifies readers of feeds about events that were handed to forwarders. */
export class HandedNews {
  readonly #publish: (message: string) => Promise<unknown>
  readonly #queueIds = new Set<string>()
  #timer: ReturnType<typeof setTimeout> | undefined

  /** @param publish publishes a message on `dueChannel`; its failure is ignored, since readers also poll */
  constructor(publish: (message: string) => Promise<unknown>) {
    this.#publish = publish
  }

  /** Publishes the tenant queues within 10 ms. */
  add(queueIds: readonly QueueId[]): void {
    for (const id of queueIds) this.#queueIds.add(id)
    if (queueIds.length > 0) this.#timer ??= setTimeout(() => this.#flush(), gatherMs)
  }

  #flush(): void {
    this.#timer = undefined
    const ids = this.#queueIds.size > queueIdsMax ? [everyone] : [...this.#queueIds]
    this.#queueIds.clear()
    this.#publish(encodeDue(ids.map((id) => `${handedMark}${id}`))).catch(() => undefined)
  }
}

/** Returns the tenant queues of a decoded message that have work for forwarders. */
export function dueOf(news: readonly string[] | 'all'): DueNews {
  return news === 'all' ? news : news.filter(isQueueId)
}

/** Returns the tenants of a decoded message, including those whose events were handed to a forwarder. */
export function storedOf(news: readonly string[] | 'all'): readonly TenantId[] | 'all' {
  const ids: readonly string[] = news === 'all' ? [everyone] : news
  if (ids.includes(everyone) || ids.includes(`${handedMark}${everyone}`)) return 'all'
  return ids.map((id) => destinationOfQueue(id.startsWith(handedMark) ? id.slice(1) : id).tenantId)
}

/** Encodes a message about new work. More than 50 ids become `all`. */
export function encodeDue(queueIds: readonly string[]): string {
  return queueIds.length > queueIdsMax ? everyone : JSON.stringify(queueIds)
}

/**
 * Decodes a message about new work, for `dueOf` and `storedOf`. Returns `all` for an invalid message, since an unnecessary claim does no
 * harm.
 */
export function decodeDue(message: string): readonly string[] | 'all' {
  if (message === everyone || message.length > dueMessageCharsMax) return 'all'
  try {
    const ids: unknown = JSON.parse(message)
    const isList = Array.isArray(ids) && ids.length <= queueIdsMax
    return isList && ids.every(isDueText) ? ids : 'all'
  } catch {
    return 'all'
  }
}

function isDueText(value: unknown): value is string {
  if (typeof value !== 'string') return false
  return (
    isQueueId(value.startsWith(handedMark) ? value.slice(1) : value) || value === `${handedMark}${everyone}`
  )
}

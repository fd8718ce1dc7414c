import { type Clock, Shares } from '#internal/base/index.ts'
import { type FeedFilter, type FeedPosition, readFeed } from '#internal/events/index.ts'
import { type Pool, textArrayParam } from '#internal/storage/index.ts'
import { fitting, loadContent, type PulledEvent } from './content.ts'
import { acknowledgeEvents } from './lease.ts'
import type { FeedNews, FeedReader } from './news.ts'
import { readStored } from './store.ts'
import { parseStreamId, streamIdOf } from './stream-id.ts'
import type { SubscriptionPlace } from './subscription.ts'

/** Events that a stream sends together; empty for a heartbeat. */
export interface StreamPage {
  readonly events: readonly StreamedEvent[]
}

/** Event with its `streamId`, which acknowledges this event and all earlier ones. */
export interface StreamedEvent {
  readonly streamId: string
  readonly event: PulledEvent
}

/** Open stream, which the caller closes. */
export interface EventPages {
  /** Pages end after `close`, after an hour, or when the lease is lost. An empty page is a heartbeat. */
  readonly pages: AsyncGenerator<StreamPage, void>
  close(): void
}

export interface StreamRequest extends SubscriptionPlace {
  /** Id of the last event that the caller has handled; empty if there is none. An id of an earlier lease is ignored. */
  readonly lastStreamId: string
  /** Called before each page; false ends the stream. */
  isAllowed(): Promise<boolean>
}

/** `held`: another stream or a pull has the lease until `availableAtMs`. */
export type OpenedStream =
  | ({ readonly kind: 'opened' } & EventPages)
  | { readonly kind: 'held'; readonly availableAtMs: number }
  | { readonly kind: 'unknown' | 'beyond_end' | 'too_many' }

export interface EventStreamsOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly news: FeedNews
  readonly ending: AbortSignal
  /** Called with the error of an unavailable store, after which all affected streams end. Must not throw. */
  onTrouble(cause: unknown): void
}

const pageEventsMax = 100
const streamsMax = 500
const streamMsMax = 3_600_000
const leaseSeconds = 60
const renewEveryMs = 20_000
const heartbeatMs = 15_000

interface ReadPage extends StreamPage {
  readonly hasMore: boolean
}

const nothing: ReadPage = { events: [], hasMore: false }

interface Stream extends SubscriptionPlace {
  readonly token: string
  readonly filter: FeedFilter
  readonly startedAtMs: number
  readonly reader: FeedReader
  isAllowed(): Promise<boolean>
  /** Resolves when the lease is released; undefined while the stream is open. */
  dropped: Promise<void> | undefined
}

/** Streams of subscriptions in one process. A stream holds the lease of its subscription; one query of the process renews all leases. */
export class EventStreams {
  readonly #options: EventStreamsOptions
  readonly #streams = new Map<string, Stream>()
  readonly #places = new Shares(streamsMax)
  readonly #timer: Timer
  #isRenewing = false

  constructor(options: EventStreamsOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#renew(), renewEveryMs)
    options.ending.addEventListener('abort', () => this.#endAll())
  }

  /** Takes the lease of a subscription for a stream. @throws errors of Postgres */
  async open(request: StreamRequest): Promise<OpenedStream> {
    const { pool, clock, ending } = this.#options
    const { tenantId, name, isAllowed } = request
    if (ending.aborted || !this.#places.take(1, tenantId)) return { kind: 'too_many' }
    const token = crypto.randomUUID()
    let taken: TakenLease | undefined
    try {
      taken = await takeLease(pool, request, { token, nowMs: clock.now() })
      if (taken.kind !== 'taken') return taken
    } finally {
      if (taken?.kind !== 'taken') this.#places.give(1, tenantId)
    }
    for (const other of this.#streams.values())
      if (other.tenantId === tenantId && other.name === name) this.#end(other)
    const reader = this.#options.news.openForStream(tenantId)
    reader.after = taken.position
    const stream: Stream = {
      tenantId,
      name,
      token,
      filter: taken.filter,
      reader,
      isAllowed,
      startedAtMs: clock.now(),
      dropped: undefined,
    }
    this.#streams.set(token, stream)
    return { kind: 'opened', pages: this.#pages(stream), close: () => this.#end(stream) }
  }

  async *#pages(stream: Stream): AsyncGenerator<StreamPage, void> {
    const { pool, clock, onTrouble } = this.#options
    const { reader } = stream
    try {
      let isDue = true
      while (!reader.closed.aborted && (await stream.isAllowed())) {
        const page = isDue ? await readPage(pool, stream, clock.now()) : nothing
        if (page.events.length > 0) yield { events: page.events }
        if (page.hasMore) continue
        // An idle stream does not read its feed until it is notified of new events.
        isDue = await reader.wait(heartbeatMs)
        if (!isDue) yield { events: [] }
      }
    } catch (cause) {
      onTrouble(cause)
    } finally {
      await this.#drop(stream)
    }
  }

  /** Ends a stream, also one whose pages were never read. */
  #end(stream: Stream): void {
    stream.reader.close()
    void this.#drop(stream)
  }

  /** Safe to repeat: releases the lease once. */
  #drop(stream: Stream): Promise<void> {
    const { pool, onTrouble } = this.#options
    stream.reader.close()
    if (this.#streams.delete(stream.token)) this.#places.give(1, stream.tenantId)
    stream.dropped ??= releaseLease(pool, stream).catch(onTrouble)
    return stream.dropped
  }

  async #renew(): Promise<void> {
    if (this.#isRenewing || this.#streams.size === 0) return
    this.#isRenewing = true
    const { pool, clock, onTrouble } = this.#options
    try {
      const nowMs = clock.now()
      const streams = [...this.#streams.values()]
      const held = await renewLeases(pool, streams)
      for (const stream of streams)
        if (!held.has(stream.token) || nowMs - stream.startedAtMs >= streamMsMax) this.#end(stream)
    } catch (cause) {
      onTrouble(cause)
    } finally {
      this.#isRenewing = false
    }
  }

  #endAll(): void {
    clearInterval(this.#timer)
    for (const stream of this.#streams.values()) this.#end(stream)
  }
}

/** Returns the tokens of the leases that are still held. */
async function renewLeases(pool: Pool, streams: readonly Stream[]): Promise<ReadonlySet<string>> {
  const { rows } = await pool.query<{ lease: string }>({
    name: 'renew_streams',
    text: `UPDATE subscriptions AS s SET held_until = now() + make_interval(secs => ${leaseSeconds}), version = version + 1
      FROM unnest($1::text[], $2::text[], $3::text[]) AS i (tenant_id, name, lease)
      WHERE s.tenant_id = i.tenant_id AND s.name = i.name AND s.lease = i.lease RETURNING s.lease`,
    values: [
      textArrayParam(streams.map(({ tenantId }) => tenantId)),
      textArrayParam(streams.map(({ name }) => name)),
      textArrayParam(streams.map(({ token }) => token)),
    ],
  })
  return new Set(rows.map(({ lease }) => lease))
}

async function readPage(pool: Pool, stream: Stream, nowMs: number): Promise<ReadPage> {
  const { tenantId, filter, reader, token } = stream
  const { after } = reader
  const feed = await readFeed(pool, { tenantId, filter, after, limit: pageEventsMax }, nowMs)
  const events = fitting(feed.events)
  reader.after = events.length < feed.events.length ? (events.at(-1)?.position ?? after) : feed.examinedTo
  if (events.length === 0) return { events: [], hasMore: feed.hasMore }
  const loaded = await loadContent(pool, tenantId, events)
  return {
    events: loaded.map(([{ position }, event]) => ({ streamId: streamIdOf({ token, position }), event })),
    hasMore: true,
  }
}

type TakenLease =
  | { readonly kind: 'taken'; readonly position: FeedPosition; readonly filter: FeedFilter }
  | Exclude<OpenedStream, { kind: 'opened' }>

// A caller that reconnects with an id from the current lease is the same caller, so it takes over the lease.
const takeText = `
UPDATE subscriptions SET lease = $3, leased_transaction = NULL, leased_event = NULL,
  held_until = now() + make_interval(secs => ${leaseSeconds}), used_at = now(), version = version + 1
WHERE tenant_id = $1 AND name = $2 AND (held_until <= now() OR (lease = $4) IS TRUE)
RETURNING position_transaction::text AS transaction, position_event AS "eventId", providers, types,
  received_from AS "receivedFrom", position_transaction >= pg_snapshot_xmax(pg_current_snapshot()) AS "isBeyondEnd"`

async function takeLease(
  pool: Pool,
  { tenantId, name, lastStreamId }: StreamRequest,
  { token, nowMs }: { readonly token: string; readonly nowMs: number },
): Promise<TakenLease> {
  const last = parseStreamId(lastStreamId)
  // An id of an earlier lease acknowledges nothing. If the acknowledgement is `unfinished`, the remaining events are sent again.
  if (last) await acknowledgeEvents(pool, { tenantId, name, ackToken: lastStreamId }, nowMs)
  const { rows } = await pool.query<{
    readonly transaction: string
    readonly eventId: string
    readonly providers: readonly string[]
    readonly types: readonly string[]
    readonly receivedFrom: string
    readonly isBeyondEnd: boolean
  }>({
    name: 'take_stream_lease',
    text: takeText,
    values: [tenantId, name, token, last?.token ?? ''],
  })
  const [row] = rows
  if (row) {
    const { transaction, eventId, isBeyondEnd, ...filter } = row
    if (!isBeyondEnd) return { kind: 'taken', position: { transaction, eventId }, filter }
    await releaseLease(pool, { tenantId, name, token })
    return { kind: 'beyond_end' }
  }
  const held = await readStored(pool, { tenantId, name })
  return held ? { kind: 'held', availableAtMs: held.availableAtMs ?? nowMs } : { kind: 'unknown' }
}

/** Ends a lease but keeps its token, so that a caller that reconnects is recognized. */
async function releaseLease(
  pool: Pool,
  { tenantId, name, token }: Pick<Stream, 'tenantId' | 'name' | 'token'>,
): Promise<void> {
  await pool.query(
    `UPDATE subscriptions SET held_until = '-infinity', used_at = now(), version = version + 1
     WHERE tenant_id = $1 AND name = $2 AND lease = $3`,
    [tenantId, name, token],
  )
}

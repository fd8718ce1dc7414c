import { ErrorReply } from 'redis'
import { type ChannelListener, RedisUnavailable } from './connection.ts'
import { RedisLink } from './link.ts'
import type { RedisSession, RedisTarget } from './session.ts'

interface Channel {
  /** Undefined: nobody listens any more. */
  listener: ChannelListener | undefined
  /** The connection on which the server knows of it. */
  on: RedisSession | undefined
  settling: Promise<void> | undefined
}

/** Callbacks of a subscriber. */
export interface SubscriberEvents {
  readonly onError: (error: unknown) => void
  /** The server has ended a subscription, since its slot went elsewhere. */
  readonly onChannelMoved: () => void
}

/** Maximum wait of the first subscription for its connection. */
const connectMsMax = 500

/**
 * The sharded channels that are listened to at one server, on a connection of their own: where a slot moves away, the server
 * announces it unasked, and node-redis takes that for the reply to whatever command waits first.
 */
export class RedisSubscriber {
  readonly #target: RedisTarget
  readonly #events: SubscriberEvents
  readonly #channels = new Map<string, Channel>()
  #link: RedisLink | undefined

  constructor(target: RedisTarget, events: SubscriberEvents) {
    this.#target = target
    this.#events = events
  }

  /** Listens from now on, also after a failure, until `unsubscribe`; settles once the server confirmed. */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    const entry = this.#channels.get(channel) ?? { listener, on: undefined, settling: undefined }
    entry.listener = listener
    this.#channels.set(channel, entry)
    const link = this.#connect()
    await link.whenUp(connectMsMax)
    await this.#settle(channel, entry)
  }

  /** Nothing more is delivered from now on; settles once the server confirmed. */
  async unsubscribe(channel: string): Promise<void> {
    const entry = this.#channels.get(channel)
    if (!entry) return
    entry.listener = undefined
    await this.#settle(channel, entry)
  }

  close(): void {
    this.#channels.clear()
    this.#link?.close()
  }

  #connect(): RedisLink {
    this.#link ??= new RedisLink(this.#target, {
      onError: this.#events.onError,
      onUp: () => this.#settleAll(),
      onChannelMoved: () => {
        // Which one it was does not matter: all are asked for again, here or where their slots went.
        for (const entry of this.#channels.values()) entry.on = undefined
        this.#link?.renew(new RedisUnavailable('refused'))
        this.#events.onChannelMoved()
      },
    })
    return this.#link
  }

  #settleAll(): void {
    for (const [channel, entry] of this.#channels) this.#settle(channel, entry).catch(() => undefined)
  }

  #settle(channel: string, entry: Channel): Promise<void> {
    entry.settling ??= this.#converge(channel, entry)
      .catch((error: unknown) => {
        if (error instanceof ErrorReply && error.message.startsWith('MOVED')) this.#events.onChannelMoved()
        throw error
      })
      .finally(() => {
        entry.settling = undefined
      })
    return entry.settling
  }

  /** Each turn waits for one reply, which the connection's end refuses; it ends when the server knows what is wished. */
  async #converge(channel: string, entry: Channel): Promise<void> {
    const session = this.#link?.session
    while (entry.listener !== undefined && (!session || entry.on !== session)) {
      if (!session) throw new RedisUnavailable('disconnected')
      await session.subscribe(channel, this.#deliver)
      entry.on = session
    }
    if (entry.listener !== undefined) return
    if (session && entry.on === session) await session.unsubscribe(channel)
    entry.on = undefined
    if (entry.listener !== undefined) return this.#converge(channel, entry)
    if (this.#channels.get(channel) === entry) this.#channels.delete(channel)
  }

  readonly #deliver = (message: string, channel: string): void => {
    try {
      this.#channels.get(channel)?.listener?.(message)
    } catch (error) {
      // Thrown on, it would end in node-redis' parser and cost the connection.
      this.#events.onError(error)
    }
  }
}

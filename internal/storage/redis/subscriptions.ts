import { ErrorReply } from '@redis/client'
import type { RedisPeer } from './link.ts'
import { type ChannelListener, type RedisSession, RedisUnavailable } from './session.ts'

interface Channel {
  /** Empty after `unsubscribe`. */
  readonly listeners: Set<ChannelListener>
  on: RedisSession | undefined
  converging: Promise<void> | undefined
}

/** Maximum wait of a channel's first subscription for a connection. */
const connectMsMax = 500

/** Sharded pub/sub channels, each subscribed at the server that currently serves it. */
export class Subscriptions {
  readonly #route: (channel: string) => RedisPeer | undefined
  readonly #onError: (error: unknown) => void
  readonly #channels = new Map<string, Channel>()

  constructor(route: (channel: string) => RedisPeer | undefined, onError: (error: unknown) => void) {
    this.#route = route
    this.#onError = onError
  }

  /**
   * Adds a listener until `unsubscribe`, also after a failure. Adding the same listener again changes nothing. Resolves once the server has
   * confirmed the subscription. @throws RedisUnavailable | ErrorReply
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    const entry = this.#channels.get(channel) ?? {
      listeners: new Set(),
      on: undefined,
      converging: undefined,
    }
    entry.listeners.add(listener)
    this.#channels.set(channel, entry)
    await this.#route(channel)?.messages().whenUp(connectMsMax)
    await this.#converge(channel, entry)
  }

  /**
   * Stops delivery to all listeners of the channel immediately. Resolves once the server has confirmed the end of the subscription.
   * @throws RedisUnavailable | ErrorReply
   */
  async unsubscribe(channel: string): Promise<void> {
    const entry = this.#channels.get(channel)
    if (!entry) return
    entry.listeners.clear()
    await this.#converge(channel, entry)
  }

  readonly convergeAll = (): void => {
    for (const [channel, entry] of this.#channels) this.#converge(channel, entry).catch(() => undefined)
  }

  #converge(channel: string, entry: Channel): Promise<void> {
    entry.converging ??= this.#run(channel, entry).finally(() => {
      entry.converging = undefined
    })
    return entry.converging
  }

  /** Subscribes or unsubscribes until the server has the wanted state. Each step waits for a reply; it rejects when the connection ends. */
  async #run(channel: string, entry: Channel): Promise<void> {
    for (;;) {
      const isWanted = entry.listeners.size > 0
      const target = isWanted ? this.#sessionOf(channel) : undefined
      if (entry.on && entry.on !== target) {
        const ending = entry.on.isReady ? entry.on.unsubscribe(channel) : undefined
        entry.on = undefined
        // When a channel moves, the new subscription does not wait for the old server to confirm, because that server may hang.
        if (isWanted) ending?.catch(() => undefined)
        else await ending
      } else if (!isWanted) {
        if (this.#channels.get(channel) === entry) this.#channels.delete(channel)
        return
      } else if (!target) throw new RedisUnavailable('disconnected')
      else if (entry.on === target) return
      else await this.#subscribeAt(target, channel, entry)
    }
  }

  async #subscribeAt(target: RedisSession, channel: string, entry: Channel): Promise<void> {
    try {
      await target.subscribe(channel, this.#deliver)
      entry.on = target
    } catch (error) {
      if (error instanceof ErrorReply && error.message.startsWith('MOVED')) this.#route(channel)?.onChange()
      const now = this.#sessionOf(channel)
      if (now === undefined || now === target) throw error
    }
  }

  #sessionOf(channel: string): RedisSession | undefined {
    return this.#route(channel)?.messages().session
  }

  readonly #deliver = (message: string, channel: string): void => {
    for (const listener of this.#channels.get(channel)?.listeners ?? []) {
      try {
        listener(message)
      } catch (error) {
        // Catches the listener's error, which would end the connection if it reached the parser of node-redis.
        this.#onError(error)
      }
    }
  }
}

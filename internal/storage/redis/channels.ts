import { type ChannelListener, RedisUnavailable } from './connection.ts'
import type { RedisSubscriber } from './subscriber.ts'

interface Wish {
  listener: ChannelListener
  at: RedisSubscriber | undefined
}

/** The channels that somebody listens to, each at the server that is in charge of it now. */
export class RoutedChannels {
  readonly #route: (channel: string) => RedisSubscriber | undefined
  readonly #wishes = new Map<string, Wish>()

  constructor(route: (channel: string) => RedisSubscriber | undefined) {
    this.#route = route
  }

  /** Listens until `unsubscribe`, also after a failure; one listener a channel. */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    const wish = this.#wishes.get(channel) ?? { listener, at: undefined }
    wish.listener = listener
    this.#wishes.set(channel, wish)
    await this.#place(channel, wish)
  }

  /** Ends what `subscribe` began. */
  async unsubscribe(channel: string): Promise<void> {
    const wish = this.#wishes.get(channel)
    this.#wishes.delete(channel)
    await wish?.at?.unsubscribe(channel)
  }

  /** To be called when servers have changed: moves every channel whose server is another one now. */
  replace(): void {
    for (const [channel, wish] of this.#wishes) {
      if (this.#route(channel) === wish.at) continue
      wish.at?.unsubscribe(channel).catch(() => undefined)
      this.#place(channel, wish).catch(() => undefined)
    }
  }

  async #place(channel: string, wish: Wish): Promise<void> {
    wish.at = this.#route(channel)
    if (!wish.at) throw new RedisUnavailable('disconnected')
    await wish.at.subscribe(channel, wish.listener)
  }
}

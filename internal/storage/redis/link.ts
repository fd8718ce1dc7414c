import { Bell, backoffMs, within } from '#internal/base/index.ts'
import { type RedisServers, RedisSession, type RedisTarget, RedisUnavailable } from './session.ts'
import type { RedisNode } from './url.ts'

const reconnectBounds = { firstMs: 50, maxMs: 1000 }
/** A connection that lasted this long resets the backoff to its first wait. */
const steadyMs = 5000

/** Keeps one connection to one server: connects immediately, and reconnects until `close`. */
export class RedisLink {
  readonly #target: RedisTarget
  readonly #events
  #session: RedisSession | undefined
  #closed = false
  readonly #end = new Bell()
  readonly #waiting = new Set<() => void>()

  constructor(
    target: RedisTarget,
    events: {
      /** Called for every failed attempt to connect and every lost connection. */
      readonly onError: (error: unknown) => void
      readonly onChange: () => void
      /** Called when the server ends a subscription because the slot of the channel has moved. */
      readonly onChannelMoved?: () => void
    },
  ) {
    this.#target = target
    this.#events = events
    void this.#run()
  }

  /** Current session; undefined while the connection is not ready. */
  get session(): RedisSession | undefined {
    return this.#session?.isReady ? this.#session : undefined
  }

  /** Rejects immediately when no connection exists. @throws RedisUnavailable | ErrorReply */
  send(args: readonly string[], asking = false): Promise<unknown> {
    return this.#session?.send(args, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
  }

  /** Sends like `RedisSession.sendTogether`. Rejects immediately when no connection exists. @throws RedisUnavailable | ErrorReply */
  sendTogether(commands: readonly (readonly string[])[], asking = false): Promise<unknown[]> {
    return (
      this.#session?.sendTogether(commands, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
    )
  }

  /** Resolves when the connection is ready, at `close`, or after `msMax`. */
  async whenUp(msMax: number): Promise<void> {
    if (this.session || this.#closed) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    await within(msMax, promise, () => undefined)
    this.#waiting.delete(resolve)
  }

  renew(cause: unknown): void {
    this.session?.end(cause)
  }

  close(): void {
    this.#closed = true
    this.#session?.end(new RedisUnavailable('disconnected'))
    this.#end.ring()
    this.#release()
  }

  async #run(): Promise<void> {
    for (let attempt = 0; !this.#closed; attempt += 1) {
      const startedMs = performance.now()
      await this.#live()
      if (this.#closed) return
      if (performance.now() - startedMs > steadyMs) attempt = 0
      await this.#end.sleep(backoffMs(attempt, reconnectBounds, Math.random()))
    }
  }

  async #live(): Promise<void> {
    const session = new RedisSession(this.#target, () => this.#events.onChannelMoved?.())
    this.#session = session
    try {
      await session.open()
    } catch (error) {
      if (!this.#closed) this.#events.onError(error)
      return
    }
    this.#release()
    this.#events.onChange()
    const cause = await session.ended
    if (this.#closed) return
    this.#events.onError(cause)
    this.#events.onChange()
  }

  #release(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

/** Client of one data server, with one connection for commands and, from its first use, one for pub/sub messages. */
export class RedisPeer {
  readonly name: string
  readonly node: RedisNode
  readonly link: RedisLink
  /** Called when the command connection changes, and when a slot has moved. */
  readonly onChange: () => void
  readonly #target: RedisTarget
  readonly #events
  #messages: RedisLink | undefined

  constructor(
    address: RedisServers,
    node: RedisNode,
    events: {
      readonly onError: (error: unknown) => void
      readonly onChange: () => void
      readonly onMessages: () => void
    },
  ) {
    this.name = nodeName(node)
    this.node = node
    this.onChange = events.onChange
    this.#target = dataTarget(address, node)
    this.#events = events
    this.link = new RedisLink(this.#target, events)
  }

  /**
   * Keeps pub/sub messages apart from commands, because a server announces a moved channel without a request, and node-redis would treat
   * that announcement as the reply to the first waiting command.
   */
  messages(): RedisLink {
    const link = (this.#messages ??= new RedisLink(this.#target, {
      onError: this.#events.onError,
      onChange: this.#events.onMessages,
      onChannelMoved: () => {
        // Reconnects, so that all channels are subscribed again: on this server, or on the new server of the channel's slot.
        link.renew(new RedisUnavailable('refused'))
        this.onChange()
      },
    }))
    return link
  }

  close(): void {
    this.link.close()
    this.#messages?.close()
  }
}

export function nodeName(node: RedisNode): string {
  return `${node.host}:${node.port}`
}

export function dataTarget(address: RedisServers, node: RedisNode): RedisTarget {
  return {
    node,
    tls: address.readTls,
    ...(address.username !== undefined && { username: address.username }),
    ...(address.password !== undefined && { password: address.password }),
    database: address.database,
    masterOnly: address.mode !== 'cluster',
  }
}

/** Interruptible wait of a polling loop: `ring` ends the current wait early, `stop` ends this and all later waits. */
export class Pulse {
  readonly #news = new Bell()
  readonly #end = new Bell()
  #stopped = false

  get isStopped(): boolean {
    return this.#stopped
  }

  /** Ends the current wait once its `leastMs` has passed; without a current wait, ends the next one. */
  readonly ring = this.#news.ring

  /** Makes all later waits return immediately, and ends the current one. */
  stop(): void {
    this.#stopped = true
    this.#end.ring()
    this.#news.ring()
  }

  /** Waits until `ring`, but at least `leastMs` and at most `mostMs`. */
  async wait(leastMs: number, mostMs: number): Promise<void> {
    if (!this.#stopped) await this.#end.sleep(leastMs)
    if (!this.#stopped) await this.#news.sleep(mostMs - leastMs)
  }
}

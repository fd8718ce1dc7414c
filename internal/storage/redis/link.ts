import { Bell, backoffMs, within } from '#internal/base/index.ts'
import { RedisUnavailable } from './connection.ts'
import { type RedisServers, RedisSession, type RedisTarget } from './session.ts'
import type { RedisNode } from './url.ts'

/** Callbacks of a link. */
export interface LinkEvents {
  /** Called for every failed attempt to connect and every lost connection. */
  readonly onError: (error: unknown) => void
  /** Called when the connection is up and when it is lost. */
  readonly onChange: () => void
  /** Called when the server ends a subscription because its slot moved. */
  readonly onChannelMoved?: () => void
}

const reconnectBounds = { firstMs: 50, maxMs: 1000 }
/** Minimum lifetime of a connection that resets the backoff. */
const steadyMs = 5000

/** Keeps one connection to one server: connects at once, and reconnects until `close`. */
export class RedisLink {
  readonly #target: RedisTarget
  readonly #events: LinkEvents
  #session: RedisSession | undefined
  #closed = false
  readonly #end = new Bell()
  readonly #waiting = new Set<() => void>()

  constructor(target: RedisTarget, events: LinkEvents) {
    this.#target = target
    this.#events = events
    void this.#run()
  }

  /** The current connection, if it is ready. */
  get session(): RedisSession | undefined {
    return this.#session?.isReady ? this.#session : undefined
  }

  /** Sends one command; rejects at once without a connection. @throws RedisUnavailable | ErrorReply */
  send(args: readonly string[], asking = false): Promise<unknown> {
    return this.#session?.send(args, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
  }

  /** Like `RedisSession.sendTogether`; rejects at once without a connection. @throws RedisUnavailable | ErrorReply */
  sendTogether(commands: readonly (readonly string[])[], asking = false): Promise<unknown[]> {
    return (
      this.#session?.sendTogether(commands, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
    )
  }

  /** Resolves at the next connection, at `close`, or after `msMax`. */
  async whenUp(msMax: number): Promise<void> {
    if (this.session || this.#closed) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    await within(msMax, promise, () => undefined)
    this.#waiting.delete(resolve)
  }

  /** Ends the current connection, so that a new one replaces it. */
  renew(cause: unknown): void {
    this.session?.end(cause)
  }

  /** Ends the connection and reconnecting. Idempotent. */
  close(): void {
    this.#closed = true
    this.#session?.end(new RedisUnavailable('disconnected'))
    this.#end.ring()
    this.#release()
  }

  /** Runs until `close`; waits up to a second between attempts. */
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

/** One data server: a connection for commands, and one for messages from its first use on. */
export class RedisPeer {
  readonly name: string
  readonly node: RedisNode
  readonly link: RedisLink
  /** Called when the command connection changes and when a slot has moved. */
  readonly onChange: () => void
  readonly #target: RedisTarget
  readonly #events: PeerEvents
  #messages: RedisLink | undefined

  constructor(address: RedisServers, node: RedisNode, events: PeerEvents) {
    this.name = nodeName(node)
    this.node = node
    this.onChange = events.onChange
    this.#target = dataTarget(address, node)
    this.#events = events
    this.link = new RedisLink(this.#target, events)
  }

  /**
   * Returns the connection for messages. It is separate, since a server announces a moved channel unasked, and node-redis takes
   * that for the reply to the first command that waits.
   */
  messages(): RedisLink {
    const link = (this.#messages ??= new RedisLink(this.#target, {
      onError: this.#events.onError,
      onChange: this.#events.onMessages,
      onChannelMoved: () => {
        // All channels are subscribed again, here or where their slots went.
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

/** Callbacks of a peer. */
export interface PeerEvents {
  readonly onError: (error: unknown) => void
  readonly onChange: () => void
  /** Called when the connection for messages changes. */
  readonly onMessages: () => void
}

/** Returns the key that identifies an address. */
export function nodeName(node: RedisNode): string {
  return `${node.host}:${node.port}`
}

/** Returns the target of a data server at `node` with the URL's credentials and TLS. */
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

/** Wait of a loop: `ring` ends it early, `stop` ends it for good. */
export class Pulse {
  readonly #news = new Bell()
  readonly #end = new Bell()
  #stopped = false

  get isStopped(): boolean {
    return this.#stopped
  }

  /** Ends the current wait, or the next one, once `leastMs` has passed. */
  readonly ring = this.#news.ring

  /** Ends every wait from now on. */
  stop(): void {
    this.#stopped = true
    this.#end.ring()
    this.#news.ring()
  }

  /** Waits until a ring, at least `leastMs` and at most `mostMs`. */
  async wait(leastMs: number, mostMs: number): Promise<void> {
    if (!this.#stopped) await this.#end.sleep(leastMs)
    if (!this.#stopped) await this.#news.sleep(mostMs - leastMs)
  }
}

import { Bell, backoffMs, within } from '#internal/base/index.ts'
import { RedisUnavailable } from './connection.ts'
import { RedisSession, type RedisTarget } from './session.ts'

/** Callbacks of a link. */
export interface LinkEvents {
  /** Hears of every failed attempt to connect and of every lost connection. */
  readonly onError: (error: unknown) => void
  readonly onUp?: (session: RedisSession) => void
  readonly onDown?: () => void
  readonly onChannelMoved?: () => void
}

const reconnectBounds = { firstMs: 50, maxMs: 1000 }
/** A connection that lived for less does not make the next attempt come sooner. */
const steadyMs = 5000

/** Keeps one connection to one server: connects at once, and again for as long as it is open. */
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

  /** The connection, if there is one now. */
  get session(): RedisSession | undefined {
    return this.#session?.isReady ? this.#session : undefined
  }

  /** Sends one command, or refuses at once while there is no connection. @throws RedisUnavailable | ErrorReply */
  send(args: readonly string[], asking = false): Promise<unknown> {
    return this.#session?.send(args, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
  }

  /** As `RedisSession.sendTogether`, or refuses at once. @throws RedisUnavailable | ErrorReply */
  sendTogether(commands: readonly (readonly string[])[], asking = false): Promise<unknown[]> {
    return (
      this.#session?.sendTogether(commands, asking) ?? Promise.reject(new RedisUnavailable('disconnected'))
    )
  }

  /** Settles at the next connection, at the link's end, or after `msMax`. */
  async whenUp(msMax: number): Promise<void> {
    if (this.session || this.#closed) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#waiting.add(resolve)
    await within(msMax, promise, () => undefined)
    this.#waiting.delete(resolve)
  }

  /** Gives up the present connection for a new one: behind the same name there may be another server now. */
  renew(cause: unknown): void {
    if (this.#session?.isReady) this.#session.end(cause)
  }

  /** Ends the connection and every attempt. Repeating it is harmless. */
  close(): void {
    this.#closed = true
    this.#session?.end(new RedisUnavailable('disconnected'))
    this.#end.ring()
    this.#release()
  }

  /** Ends with `close`; between two attempts lies a wait that grows to a second. */
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
    this.#events.onUp?.(session)
    const cause = await session.ended
    if (this.#closed) return
    this.#events.onError(cause)
    this.#events.onDown?.()
  }

  #release(): void {
    for (const resolve of this.#waiting) resolve()
    this.#waiting.clear()
  }
}

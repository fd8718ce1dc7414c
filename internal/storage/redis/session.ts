import { ConnectionTimeoutError, createClient, ErrorReply } from 'redis'
import { asTlsFailure, type tlsReader } from '../tls.ts'
import { RedisUnavailable } from './connection.ts'
import type { RedisAddress, RedisNode } from './url.ts'

/** A server, and how to sign in to it. */
export interface RedisTarget {
  readonly node: RedisNode
  /** Reads what a TLS connection is made with, once for each; undefined for plain text. */
  readonly tls: ReturnType<typeof tlsReader> | undefined
  readonly username?: string
  readonly password?: string
  readonly database: number
  /** Whether a replica counts as away. In a cluster it does not: there it answers with the address of its master. */
  readonly masterOnly: boolean
}

/** Address and credentials of Redis, with TLS options. */
export interface RedisServers extends RedisAddress {
  readonly readTls: RedisTarget['tls']
}

const connectMsMax = 1000
/** From the first packet to the last reply of signing in. */
const openMsMax = 1500
const heartbeatMs = 300
/** Heartbeats without one reply to what waits, after which nothing more is sent: 0.9 to 1.2 s. */
const stalledBeats = 4
/** The same, after which the connection is given up: 1.8 to 2.1 s. */
const silentBeatsMax = 7
/** Commands that wait for a reply in one connection; more are refused by node-redis at once. */
const commandsQueuedMax = 20_000

/**
 * One TCP connection from its start to its end. It never reconnects: what was subscribed or sent on it ends with it, which
 * leaves nothing of node-redis' own recovery to reason about (its clients send again, wait without end, or throw away).
 */
export class RedisSession {
  /** Settles, with the cause, once the connection is over. */
  readonly ended: Promise<unknown>
  readonly #client: ReturnType<typeof clientOf>
  readonly #target: RedisTarget
  #settleEnded: (cause: unknown) => void = () => undefined
  #state: 'opening' | 'ready' | 'ended' = 'opening'
  #heartbeat: Timer | undefined
  #pending = 0
  /** Beats since the last reply that something has been waiting through. */
  #silentBeats = 0

  constructor(target: RedisTarget, onChannelMoved: () => void) {
    this.#target = target
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve
    })
    this.#client = clientOf(target)
    this.#client.on('error', (error: unknown) => this.end(this.#named(error)))
    this.#client.on('end', () => this.end(new RedisUnavailable('disconnected')))
    this.#client.on('sharded-channel-moved', onChannelMoved)
  }

  get isReady(): boolean {
    return this.#state === 'ready'
  }

  /** Connects and signs in, within 1.5 s. @throws what failed; the session is then over */
  async open(): Promise<void> {
    const timer = setTimeout(() => this.end(new RedisUnavailable('timeout')), openMsMax)
    try {
      const over = this.ended.then((cause) => {
        throw cause
      })
      await Promise.race([this.#signIn(), over])
      this.#begin()
    } catch (cause) {
      const error = this.#named(cause)
      this.end(error)
      throw error
    } finally {
      clearTimeout(timer)
    }
  }

  /**
   * Sends one command; its reply may take as long as the connection lives.
   * @param asking right after ASKING, without which the new home of a migrating slot refuses it
   * @throws RedisUnavailable | ErrorReply
   */
  send(args: readonly string[], asking = false): Promise<unknown> {
    if (this.#state !== 'ready') return Promise.reject(new RedisUnavailable('disconnected'))
    // Without this, every caller of a hung server would wait for its whole deadline, and its command pile up here.
    if (this.#silentBeats >= stalledBeats) return Promise.reject(new RedisUnavailable('timeout'))
    if (asking) this.#count(this.#client.sendCommand(['ASKING'])).catch(() => undefined)
    return this.#count(this.#client.sendCommand(args))
  }

  /**
   * Sends commands that the server runs one after the other, with one write; their replies in order. An error reply is thrown
   * if it is the first one's, and else stands in its place.
   * @param asking as for `send`, for the first
   * @throws RedisUnavailable | ErrorReply
   */
  sendTogether(commands: readonly (readonly string[])[], asking = false): Promise<unknown[]> {
    return Promise.all(
      commands.map((args, index) =>
        index === 0 ? this.send(args, asking) : this.send(args).catch(keepErrorReply),
      ),
    )
  }

  async subscribe(channel: string, listener: (message: string, channel: string) => void): Promise<void> {
    await this.#count(this.#client.sSubscribe(channel, listener))
  }

  async unsubscribe(channel: string): Promise<void> {
    await this.#count(this.#client.sUnsubscribe(channel))
  }

  /** Ends the connection; what waits for a reply is refused. Repeating it is harmless. */
  end(cause: unknown): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearInterval(this.#heartbeat)
    this.#client.destroy()
    this.#settleEnded(cause)
  }

  /** node-redis does not say whether TCP had connected, so that a missing handshake is no proof of a TLS failure. */
  #named(error: unknown): unknown {
    if (this.#target.tls === undefined || !(error instanceof ConnectionTimeoutError))
      return asTlsFailure(error)
    const text = `no TLS connection within ${connectMsMax} ms: the address is unreachable, or its port does not offer TLS`
    return new RedisUnavailable('timeout', new Error(text, { cause: error }))
  }

  #begin(): void {
    if (this.#state !== 'opening') throw new RedisUnavailable('disconnected')
    this.#state = 'ready'
    this.#heartbeat = setInterval(() => this.#beat(), heartbeatMs)
  }

  async #signIn(): Promise<void> {
    try {
      await this.#client.connect()
    } finally {
      // A client that was destroyed while it connected connects nevertheless, and would stay.
      if (this.#state === 'ended') this.#client.destroy()
    }
    if (this.#target.masterOnly && (await this.#isReplica())) throw new RedisUnavailable('refused')
  }

  /** A user that may not call INFO is not told from a master's: its first write shows. */
  async #isReplica(): Promise<boolean> {
    try {
      return /^role:slave/m.test(String(await this.#client.sendCommand(['INFO', 'replication'])))
    } catch (error) {
      if (error instanceof ErrorReply) return false
      throw error
    }
  }

  /** Not an async function: this is the path of every request, and each promise more is felt. */
  #count<T>(reply: Promise<T>): Promise<T> {
    this.#pending += 1
    reply.then(this.#answered, this.#refused)
    return reply
  }

  readonly #answered = (): void => {
    this.#pending -= 1
    this.#silentBeats = 0
  }

  /** A master that became a replica costs its connection, since its name may lead to the new master by now. */
  readonly #refused = (error: unknown): void => {
    this.#answered()
    if (this.#target.masterOnly && error instanceof ErrorReply && error.message.startsWith('READONLY'))
      this.end(error)
  }

  /**
   * Counts beats and not time: after a stop of our own process the replies are there and only not read yet, which must not
   * look like a server that is silent. However long the stop, the beats that fell into it are one.
   */
  #beat(): void {
    if (this.#pending > 0) this.#silentBeats += 1
    if (this.#silentBeats >= silentBeatsMax) return this.end(new RedisUnavailable('timeout'))
    // A reply with an error, such as BUSY, is a sign of life as well.
    if (this.#pending === 0) this.#count(this.#client.sendCommand(['PING'])).catch(() => undefined)
  }
}

function keepErrorReply(error: unknown): ErrorReply {
  if (error instanceof ErrorReply) return error
  throw error
}

function clientOf(target: RedisTarget) {
  return createClient({
    ...(target.username !== undefined && { username: target.username }),
    ...(target.password !== undefined && { password: target.password }),
    database: target.database,
    disableOfflineQueue: true,
    commandsQueueMaxLength: commandsQueuedMax,
    maintNotifications: 'disabled',
    // Its default makes an abort signal and a timer for each command; ours is the caller's deadline.
    commandOptions: { timeout: 0 },
    socket: {
      ...target.node,
      connectTimeout: connectMsMax,
      keepAlive: true,
      noDelay: true,
      reconnectStrategy: false,
      ...(target.tls && { tls: true as const, ...target.tls(() => target.node.host) }),
    },
  })
}

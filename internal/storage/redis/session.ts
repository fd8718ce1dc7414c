import { ConnectionTimeoutError, createClient, ErrorReply } from 'redis'
import { asTlsFailure, type tlsReader } from '../tls.ts'
import { RedisUnavailable } from './connection.ts'
import type { RedisAddress, RedisNode } from './url.ts'

/** Address and credentials of one server. */
export interface RedisTarget {
  readonly node: RedisNode
  /** Reads TLS files, called per connection; undefined for plain text. */
  readonly tls: ReturnType<typeof tlsReader> | undefined
  readonly username?: string
  readonly password?: string
  readonly database: number
  /** Rejects replicas. False in a Cluster, where a replica answers with the address of its master. */
  readonly masterOnly: boolean
}

/** Address and credentials of Redis, with TLS options. */
export interface RedisServers extends RedisAddress {
  readonly readTls: RedisTarget['tls']
}

const connectMsMax = 1000
/** Time limit of connecting and signing in together. */
const openMsMax = 1500
const heartbeatMs = 300
/** Heartbeats without a reply after which new commands are rejected: 0.9 to 1.2 s. */
const stalledBeats = 4
/** Heartbeats without a reply after which the connection ends: 1.8 to 2.1 s. */
const silentBeatsMax = 7
/** Maximum commands in flight per connection; node-redis rejects more. */
const commandsQueuedMax = 20_000

/**
 * One TCP connection, which never reconnects: subscriptions and commands end with it. This avoids the recovery of node-redis,
 * which repeats commands or lets them wait without a bound (see README.md).
 */
export class RedisSession {
  /** Resolves with the cause when the connection has ended. */
  readonly ended: Promise<unknown>
  readonly #client: ReturnType<typeof clientOf>
  readonly #target: RedisTarget
  #settleEnded: (cause: unknown) => void = () => undefined
  #state: 'opening' | 'ready' | 'ended' = 'opening'
  #heartbeat: Timer | undefined
  #pending = 0
  /** Heartbeats since the last reply while commands were in flight. */
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

  /** Connects and signs in within 1.5 s. @throws the cause; the session has then ended */
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
   * @param asking sends ASKING first, as the new master of a migrating slot requires
   * @throws RedisUnavailable | ErrorReply
   */
  send(args: readonly string[], asking = false): Promise<unknown> {
    if (this.#state !== 'ready') return Promise.reject(new RedisUnavailable('disconnected'))
    // Otherwise every caller of a hung server would wait until its deadline, and the commands would pile up.
    if (this.#silentBeats >= stalledBeats) return Promise.reject(new RedisUnavailable('timeout'))
    if (asking) this.#count(this.#client.sendCommand(['ASKING'])).catch(() => undefined)
    return this.#count(this.#client.sendCommand(args))
  }

  /**
   * Sends commands with one write, which the server runs in order, and returns their replies. An error reply to the first is
   * thrown, another one is returned in its place.
   * @param asking like `send`, for the first command
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

  /** Ends the connection and rejects commands in flight. Idempotent. */
  end(cause: unknown): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearInterval(this.#heartbeat)
    this.#client.destroy()
    this.#settleEnded(cause)
  }

  /** node-redis does not report whether TCP had connected, so a missing handshake does not prove a TLS failure. */
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
      // A client destroyed while connecting connects nevertheless and would stay open.
      if (this.#state === 'ended') this.#client.destroy()
    }
    if (this.#target.masterOnly && (await this.#isReplica())) throw new RedisUnavailable('refused')
  }

  /** Returns false if the user may not call INFO; the first write then reveals a replica. */
  async #isReplica(): Promise<boolean> {
    try {
      return /^role:slave/m.test(String(await this.#client.sendCommand(['INFO', 'replication'])))
    } catch (error) {
      if (error instanceof ErrorReply) return false
      throw error
    }
  }

  /** Not async: every request runs this, and a further promise is measurable. */
  #count<T>(reply: Promise<T>): Promise<T> {
    this.#pending += 1
    reply.then(this.#answered, this.#refused)
    return reply
  }

  readonly #answered = (): void => {
    this.#pending -= 1
    this.#silentBeats = 0
  }

  /** Ends the connection when its master became a replica, since the name may lead to the new master by now. */
  readonly #refused = (error: unknown): void => {
    this.#answered()
    if (this.#target.masterOnly && error instanceof ErrorReply && error.message.startsWith('READONLY'))
      this.end(error)
  }

  /**
   * Counts heartbeats, not time: after a pause of this process the replies have arrived but are unread, which is not a silent
   * server. A pause of any length counts as one heartbeat.
   */
  #beat(): void {
    if (this.#pending > 0) this.#silentBeats += 1
    if (this.#silentBeats >= silentBeatsMax) return this.end(new RedisUnavailable('timeout'))
    // An error reply, such as BUSY, also proves that the server is alive.
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
    // The default creates an abort signal and a timer per command; the caller has a deadline.
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

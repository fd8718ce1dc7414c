import { ConnectionTimeoutError, createClient, ErrorReply } from '@redis/client'
import { asTlsFailure, type tlsReader } from '../tls.ts'
import type { RedisAddress, RedisNode } from './url.ts'

/** Reason of a failed call. Closed set, so it can be a metric label. */
export type RedisFailure = 'disconnected' | 'timeout' | 'full' | 'refused' | 'overloaded'

/** Failure of a call because Redis is unavailable. It is unknown whether the command ran. Callers respond with 503. */
export class RedisUnavailable extends Error {
  override readonly name = 'RedisUnavailable'
  readonly reason: RedisFailure

  constructor(reason: RedisFailure, cause?: unknown) {
    super(`Redis unavailable: ${reason}`, { cause })
    this.reason = reason
  }
}

/** Listener of a pub/sub channel. */
export type ChannelListener = (message: string) => void

export interface RedisServerFacts {
  /** Version such as `7.0.15`. */
  readonly version: string
  /** Eviction policy such as `noeviction`. */
  readonly maxmemoryPolicy: string
}

export interface RedisTarget {
  readonly node: RedisNode
  /** Reads the files for each connection; undefined for plain text. */
  readonly tls: ReturnType<typeof tlsReader> | undefined
  readonly username?: string
  readonly password?: string
  readonly database: number
  /** True to refuse a server that is a replica. False in a Cluster, where a replica redirects to its master. */
  readonly masterOnly: boolean
}

export interface RedisServers extends RedisAddress {
  readonly readTls: RedisTarget['tls']
}

const connectMsMax = 1000
/** Maximum total time for connecting and signing in. */
const openMsMax = 1500
const heartbeatMs = 300
/** Heartbeats without a reply after which new commands are rejected: 0.9 to 1.2 s. */
const stalledBeats = 4
/** Heartbeats without a reply after which the connection is closed: 1.8 to 2.1 s. */
const silentBeatsMax = 7
/** Maximum waiting commands per connection. node-redis rejects further ones. */
const commandsQueuedMax = 20_000

/**
 * One TCP connection that never reconnects: its subscriptions and commands end with it. This avoids the automatic recovery of node-redis,
 * which repeats commands or lets them wait without a time limit (see README.md).
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
  /** Heartbeats since the last reply while commands are in flight. */
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

  /** Connects and signs in within 1.5 s. @throws the cause of the failure; the session has then ended */
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
   * Sends one command. The reply can take as long as the connection exists.
   * @param asking sends ASKING first, as the new master of a migrating slot requires
   * @throws RedisUnavailable | ErrorReply
   */
  send(args: readonly string[], asking = false): Promise<unknown> {
    if (this.#state !== 'ready') return Promise.reject(new RedisUnavailable('disconnected'))
    // Refuses at once, since a hung server would hold each caller until its deadline, and commands would accumulate.
    if (this.#silentBeats >= stalledBeats) return Promise.reject(new RedisUnavailable('timeout'))
    if (asking) this.#count(this.#client.sendCommand(['ASKING'])).catch(() => undefined)
    return this.#count(this.#client.sendCommand(args))
  }

  /**
   * Sends commands with one write. The server runs them in order. Throws an error reply to the first command, and returns one to a later
   * command as its reply.
   * @param asking like in `send`, for the first command
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

  /** Rejects commands in flight. Idempotent. */
  end(cause: unknown): void {
    if (this.#state === 'ended') return
    this.#state = 'ended'
    clearInterval(this.#heartbeat)
    this.#client.destroy()
    this.#settleEnded(cause)
  }

  /** Converts a TLS error to `TlsFailure`. Leaves a connection time-out: node-redis does not report whether TCP had connected. */
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
      // node-redis completes a connection even if its client was destroyed while connecting. Destroying it again closes that connection.
      if (this.#state === 'ended') this.#client.destroy()
    }
    if (this.#target.masterOnly && (await this.#isReplica())) throw new RedisUnavailable('refused')
  }

  /** Returns whether the server is a replica. False if the user may not call INFO; the first write then reveals a replica. */
  async #isReplica(): Promise<boolean> {
    try {
      return /^role:slave/m.test(String(await this.#client.sendCommand(['INFO', 'replication'])))
    } catch (error) {
      if (error instanceof ErrorReply) return false
      throw error
    }
  }

  /** Not async: every request calls this function, and another promise has a measurable cost. */
  #count<T>(reply: Promise<T>): Promise<T> {
    this.#pending += 1
    reply.then(this.#answered, this.#refused)
    return reply
  }

  readonly #answered = (): void => {
    this.#pending -= 1
    this.#silentBeats = 0
  }

  /** Closes the connection after a READONLY error: its server became a replica, and the host name may now resolve to the new master. */
  readonly #refused = (error: unknown): void => {
    this.#answered()
    if (this.#target.masterOnly && error instanceof ErrorReply && error.message.startsWith('READONLY'))
      this.end(error)
  }

  /**
   * Counts heartbeats, not elapsed time. After a pause of this process, replies have arrived but are unread, so by elapsed time the server
   * would seem silent. A pause of any length counts as one heartbeat.
   */
  #beat(): void {
    if (this.#pending > 0) this.#silentBeats += 1
    if (this.#silentBeats >= silentBeatsMax) return this.end(new RedisUnavailable('timeout'))
    // Ignores the reply: even an error reply, such as BUSY, proves that the server is alive.
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
    // The default timeout creates an abort signal and a timer per command. The caller has a deadline anyway.
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

import type { KeptReply, RedisDurability } from './durability.ts'
import type { RedisScript } from './script.ts'

/** Reason of a missing reply. Closed set, usable as a metric label. */
export type RedisFailure = 'disconnected' | 'timeout' | 'full' | 'refused' | 'overloaded'

/** The store did not give an answer, so nothing is known about what was asked: callers answer 503. */
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

/** Facts from `INFO` that records depend on. */
export interface RedisServerFacts {
  /** Such as `7.0.15`. */
  readonly version: string
  /** Such as `noeviction`. */
  readonly maxmemoryPolicy: string
}

/** A connection to Redis in any of its forms; it reconnects by itself for as long as it is open. */
export interface RedisConnection {
  /**
   * Runs a script in one round trip. All keys share one hash tag.
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  evaluate(script: RedisScript, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /**
   * Runs a script, waits for one replica to have what it wrote, and asks the server that ran it how it keeps things: all in one
   * round trip on one connection. The wait holds up whatever is sent behind it, so it is for a connection of its own.
   * @param waitMs bound of the wait, below the connection's deadline; 0 for no wait, as where there is no replica
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  evaluateKept(
    script: RedisScript,
    keys: readonly string[],
    args: readonly string[],
    waitMs: number,
  ): Promise<KeptReply>
  /** Asks the server that holds `key` how it keeps things. @throws RedisUnavailable */
  durability(key: string): Promise<RedisDurability>
  /** Reads plain values in one round trip, null where there is none. All keys share one hash tag. @throws RedisUnavailable */
  read(keys: readonly string[]): Promise<readonly (string | null)[]>
  /**
   * Listens on a sharded channel until `unsubscribe`, across reconnects and changes of server; a second listener takes the
   * first one's place. Settles once the server confirmed.
   * @throws RedisUnavailable; the wish stands nevertheless, and is fulfilled when Redis is back
   */
  subscribe(channel: string, listener: ChannelListener): Promise<void>
  /** Ends what `subscribe` began; harmless when there is nothing. */
  unsubscribe(channel: string): Promise<void>
  /** Publishes on a sharded channel. @throws RedisUnavailable */
  publish(channel: string, message: string): Promise<void>
  /** Reads the facts of every master that is connected. @throws RedisUnavailable if none is */
  serverFacts(): Promise<readonly RedisServerFacts[]>
  /** The last TLS failure of a connection, such as `TLS: certificate not trusted (…)`, until `serverFacts` has an answer. */
  tlsFailure(): string | undefined
  /** Ends all connections; what is under way is refused. Repeating it is harmless. */
  close(): Promise<void>
}

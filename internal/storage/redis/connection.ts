import type { KeptReply, RedisDurability } from './durability.ts'
import type { RedisScript } from './script.ts'

/** Reason of a failed call. Closed set, usable as a metric label. */
export type RedisFailure = 'disconnected' | 'timeout' | 'full' | 'refused' | 'overloaded'

/** Redis did not answer; whether the command ran is unknown. Callers answer 503. */
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

/** Connection to a standalone Redis, a master behind Sentinels, or a Cluster. Reconnects until `close`. */
export interface RedisConnection {
  /**
   * Runs a script in one round trip. All keys share one hash tag.
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  evaluate(script: RedisScript, keys: readonly string[], args: readonly string[]): Promise<unknown>
  /**
   * Runs a script, waits until one replica has its writes, and reads the server's durability, in one round trip on one
   * connection. The wait blocks later commands of the connection, so use a separate one.
   * @param waitMs maximum wait, below the connection's deadline; 0 for no wait, such as without replicas
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  evaluateKept(
    script: RedisScript,
    keys: readonly string[],
    args: readonly string[],
    waitMs: number,
  ): Promise<KeptReply>
  /** Reads the durability of the server that holds `key`. @throws RedisUnavailable */
  durability(key: string): Promise<RedisDurability>
  /** Reads plain values in one round trip, null for a missing key. All keys share one hash tag. @throws RedisUnavailable */
  read(keys: readonly string[]): Promise<readonly (string | null)[]>
  /**
   * Listens on a sharded channel until `unsubscribe`, across reconnects and failovers; a second listener replaces the first.
   * Resolves once the server confirmed.
   * @throws RedisUnavailable; the subscription is still made as soon as Redis is available
   */
  subscribe(channel: string, listener: ChannelListener): Promise<void>
  /** Ends a subscription. Idempotent. */
  unsubscribe(channel: string): Promise<void>
  /** Publishes on a sharded channel. @throws RedisUnavailable */
  publish(channel: string, message: string): Promise<void>
  /** Reads the facts of all connected masters. @throws RedisUnavailable if there is none */
  serverFacts(): Promise<readonly RedisServerFacts[]>
  /** Returns the last TLS failure, such as `TLS: certificate not trusted (…)`, until `serverFacts` succeeds. */
  tlsFailure(): string | undefined
  /** Ends all connections and rejects calls in flight. Idempotent. */
  close(): Promise<void>
}

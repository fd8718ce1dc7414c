/** Reason of a failed call. The set is closed, so it can be a metric label. */
export type RedisFailure = 'disconnected' | 'timeout' | 'full' | 'refused' | 'overloaded'

/** Thrown when a call fails because Redis is unavailable. It is unknown whether the command ran. Callers respond with 503. */
export class RedisUnavailable extends Error {
  override readonly name = 'RedisUnavailable'
  readonly reason: RedisFailure

  constructor(reason: RedisFailure, cause?: unknown) {
    super(`Redis unavailable: ${reason}`, { cause })
    this.reason = reason
  }
}

/** Receives each message of a pub/sub channel. */
export type ChannelListener = (message: string) => void

/** Fields of `INFO` on which idempotency records depend. */
export interface RedisServerFacts {
  /** Redis version, such as `7.0.15`. */
  readonly version: string
  /** Eviction policy, such as `noeviction`. */
  readonly maxmemoryPolicy: string
}

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

import type { Scope } from '#internal/process/index.ts'
import type { ChannelListener, RedisConnection } from '#internal/storage/index.ts'
import { openLoop } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** A channel that a process listens to. */
export interface NewsOptions {
  /** Names the loop in the log. */
  readonly name: string
  readonly channel: string
  readonly onMessage: ChannelListener
  /** The log's line while Redis has not been there yet; constant. */
  readonly missing: string
}

const subscribeMs = 5_000
const turnMsMax = 5_000

/**
 * Subscribes once Redis is there, and then keeps quiet: the connection subscribes again by itself. Whatever is missed
 * meanwhile has to be found by a poll, so this is no part of readiness.
 */
export async function startNews(
  { name, channel, onMessage, missing }: NewsOptions,
  redis: RedisConnection,
  telemetry: Pick<ProcessTelemetry, 'log' | 'health' | 'loopFailed'>,
  scope: Scope,
): Promise<void> {
  let subscribed = false
  await openLoop(
    {
      name,
      intervalMs: subscribeMs,
      turnMsMax,
      runOnce: async () => {
        if (subscribed) return
        await redis.subscribe(channel, onMessage)
        subscribed = true
      },
      onError: (cause, failures) => telemetry.log.debug({ failures, cause }, missing),
    },
    telemetry,
    scope,
  )
}

import { type LoopOptions, type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { ChannelListener, RedisConnection } from '#internal/storage/index.ts'
import type { Host } from './telemetry.ts'

export interface ProcessLoopOptions extends Omit<LoopOptions, 'health'> {
  /** Runs once after the loop has stopped; errors are ignored. */
  readonly lastTurn?: () => Promise<void>
}

/** Runs a loop until the scope closes. Adds its heartbeat to the health checks and counts its failures. */
export function openLoop(
  { health, loopFailed, scope }: Host,
  { lastTurn, ...options }: ProcessLoopOptions,
): Promise<SupervisedLoop> {
  const { name } = options
  const onError = (error: unknown, failures: number) => {
    loopFailed(name)
    options.onError(error, failures)
  }
  // Exposes the series as 0 from the start, so that `rate()` sees the first failure.
  loopFailed(name, 0)
  return scope.open({
    name,
    open: () => superviseLoop({ ...options, onError, health }),
    close: async (loop) => {
      await loop.stop()
      await lastTurn?.().catch(() => undefined)
    },
  })
}

const subscribeMs = 5_000
const turnMsMax = 5_000

/**
 * Subscribes to a Redis channel as soon as Redis is reachable. The connection resubscribes automatically. Messages can be lost, so the
 * caller must also poll. Readiness does not depend on the subscription.
 */
export async function startSubscription(
  host: Host,
  redis: RedisConnection,
  {
    name,
    channel,
    onMessage,
  }: {
    /** Appears in logs and metrics. */
    readonly name: string
    /** Name of the channel, or a function that finds the name, which is called again every 5 s while it rejects. */
    readonly channel: string | (() => Promise<string>)
    readonly onMessage: ChannelListener
  },
): Promise<void> {
  let subscribed = false
  await openLoop(host, {
    name,
    intervalMs: subscribeMs,
    turnMsMax,
    runOnce: async () => {
      if (subscribed) return
      await redis.subscribe(typeof channel === 'string' ? channel : await channel(), onMessage)
      subscribed = true
    },
    onError: (cause, failures) =>
      host.log.debug({ subscription: name, failures, cause }, 'Redis channel not subscribed yet; retrying'),
  })
}

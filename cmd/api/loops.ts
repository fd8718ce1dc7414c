import { type Scope, superviseLoop } from '#internal/process/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { type Directory, directoryChannel } from '#internal/tenants/index.ts'
import type { Meter } from '#internal/usage/index.ts'
import type { Telemetry } from './telemetry.ts'

/** What the loops work on. */
export interface LoopParts {
  readonly scope: Scope
  readonly telemetry: Telemetry
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly meter: Meter
}

const flushMs = 1000
const subscribeMs = 5000
const readinessMs = 5000
const turnMsMax = 5000

/** Starts what runs behind the requests: the roll-up of usage, and the news that tenants have changed. */
export async function startLoops({ scope, telemetry, redis, directory, meter }: LoopParts): Promise<void> {
  const { log, health } = telemetry
  await scope.open({
    name: 'usage roll-up',
    open: () =>
      superviseLoop({
        name: 'usage roll-up',
        intervalMs: flushMs,
        turnMsMax,
        runOnce: () => meter.flush(),
        onError: (error, failures) => {
          telemetry.flushFailed()
          log.warn({ failures, cause: error }, 'usage could not be rolled up, trying again')
        },
        health,
      }),
    close: async (loop) => {
      await loop.stop()
      // What was counted since the last turn; when it fails the next process to lock for a tenant makes up for it.
      await meter.flush().catch(() => undefined)
    },
  })
  await scope.open({
    name: 'readiness',
    // What was seen once as it should be counts for good, also where nobody asks.
    open: () =>
      superviseLoop({
        name: 'readiness',
        intervalMs: readinessMs,
        turnMsMax,
        runOnce: async () => void (await health.readiness()),
        onError: (error, failures) => log.debug({ failures, cause: error }, 'readiness cannot be told'),
        health,
      }),
    close: (loop) => loop.stop(),
  })
  await scope.open({
    name: 'tenant news',
    open: () => subscribeLoop(telemetry, redis, directory),
    close: (loop) => loop.stop(),
  })
}

/** Subscribes once Redis is there, and then keeps quiet: the connection subscribes again by itself, and a poll backs it. */
function subscribeLoop({ log, health }: Telemetry, redis: RedisConnection, directory: Directory) {
  let subscribed = false
  return superviseLoop({
    name: 'tenant news',
    intervalMs: subscribeMs,
    turnMsMax,
    runOnce: async () => {
      if (subscribed) return
      await redis.subscribe(directoryChannel, () => directory.notify())
      subscribed = true
    },
    onError: (error, failures) => log.debug({ failures, cause: error }, 'not subscribed to tenant news yet'),
    health,
  })
}

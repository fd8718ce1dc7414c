import { openLoop } from '#cmd/serving/loop.ts'
import { startTenantNews } from '#cmd/serving/tenants.ts'
import type { Scope } from '#internal/process/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { Telemetry } from './telemetry.ts'

/** What the loops work on. */
export interface LoopParts {
  readonly scope: Scope
  readonly telemetry: Telemetry
  readonly redis: RedisConnection
  readonly directory: Directory
}

const readinessMs = 5000
const turnMsMax = 5000

/** Starts what runs behind the requests: readiness, and the news that tenants have changed. */
export async function startLoops({ scope, telemetry, redis, directory }: LoopParts): Promise<void> {
  const { log, health } = telemetry
  // What was seen once as it should be counts for good, also where nobody asks.
  await openLoop(
    {
      name: 'readiness',
      intervalMs: readinessMs,
      turnMsMax,
      runOnce: async () => void (await health.readiness()),
      onError: (error, failures) => log.debug({ failures, cause: error }, 'readiness cannot be told'),
    },
    telemetry,
    scope,
  )
  await startTenantNews(redis, directory, telemetry, scope)
}

import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { createDirectory, type Directory, directoryChannel } from '#internal/tenants/index.ts'
import { startSubscription } from './loop.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** Opens the tenant directory for the scope's life. The process is not ready before the first successful read. */
export async function openDirectory(
  pool: Pool,
  { log, health }: ProcessTelemetry,
  scope: Scope,
): Promise<Directory> {
  const directory = await scope.open({
    name: 'tenants',
    open: async () => {
      const opened = createDirectory({ pool, clock: systemClock, log, health })
      await opened.start()
      return opened
    },
    close: (opened) => opened.stop(),
  })
  health.addCheck('tenants', () =>
    directory.hasSnapshot() ? { ok: true } : { ok: false, reason: 'tenants have not been read yet' },
  )
  return directory
}

/** Refreshes the directory when tenants change, by Redis pub/sub. The directory also polls. */
export function startTenantSubscription(
  redis: RedisConnection,
  directory: Directory,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  return startSubscription(
    {
      name: 'tenant subscription',
      channel: directoryChannel,
      onMessage: () => directory.notify(),
      missing: 'not yet subscribed to tenant changes',
    },
    redis,
    telemetry,
    scope,
  )
}

import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { createDirectory, type Directory, directoryChannel } from '#internal/tenants/index.ts'
import { startNews } from './news.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** Opens the directory of tenants for the scope's life; the process is not ready before they were read once. */
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
    directory.hasSnapshot() ? { ok: true } : { ok: false, reason: 'the tenants have not been read yet' },
  )
  return directory
}

/** Has the directory read anew as soon as tenants change, for the scope's life; its own poll backs it. */
export function startTenantNews(
  redis: RedisConnection,
  directory: Directory,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  return startNews(
    {
      name: 'tenant news',
      channel: directoryChannel,
      onMessage: () => directory.notify(),
      missing: 'not subscribed to tenant news yet',
    },
    redis,
    telemetry,
    scope,
  )
}

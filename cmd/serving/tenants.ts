import { systemClock } from '#internal/base/index.ts'
import { Directory, directoryChannel } from '#internal/tenants/index.ts'
import { startSubscription } from './loop.ts'
import type { Stores } from './stores.ts'
import type { Host } from './telemetry.ts'

/**
 * Opens the tenant directory until the scope closes. The directory polls Postgres, and also reads immediately after a Redis message about a
 * change. The process is not ready before the first successful read. Readiness does not depend on Redis.
 */
export async function openDirectory(host: Host, { pool, redis }: Stores): Promise<Directory> {
  const { log, health } = host
  const directory = await host.scope.open({
    name: 'tenants',
    open: async () => {
      const opened = new Directory({ pool, clock: systemClock, log, health })
      await opened.start()
      return opened
    },
    close: (opened) => opened.stop(),
  })
  health.addCheck('tenants', () =>
    directory.hasSnapshot()
      ? { ok: true }
      : { ok: false, reason: 'the tenant directory has not been read yet' },
  )
  await startSubscription(host, redis, {
    name: 'tenant subscription',
    channel: directoryChannel,
    onMessage: () => directory.notify(),
  })
  return directory
}

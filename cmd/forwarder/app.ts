import { openKeyRing } from '#cmd/serving/key-ring.ts'
import { type CommonConfig, openOpsPort } from '#cmd/serving/ops.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startStats } from '#cmd/serving/stats.ts'
import { openStores } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { openDirectory } from '#cmd/serving/tenants.ts'
import { type DeliveriesConfig, startDeliveries } from './deliveries.ts'
import { startReplays } from './replays.ts'
import { startPartitionsAhead, startRetention } from './retention.ts'

/** Settings of the forwarder. */
export type ForwarderConfig = DeliveriesConfig & CommonConfig

/** Connection pool for the tenant directory and the settings. Deliveries have their own pool. */
const stores = { applicationName: 'latchkey-forwarder', connectionsMax: 2, queryTimeoutMs: 5_000 }

/** Starts the forwarder in this order: ops port, stores, tenants, retention, deliveries, replays. The forwarder has no public port. */
export async function startForwarder(host: Host, config: ForwarderConfig): Promise<ServingPorts> {
  const ops = await openOpsPort(host, {
    ...config,
    check: 'deliveries',
    reason: 'deliveries have not started yet',
  })
  const { pool, redis } = await openStores(host, config, stores)
  const settings = await openSettings(host, { pool, redis })
  const directory = await openDirectory(host, { pool, redis })
  const ring = await openKeyRing(host, { pool, directory, keyRing: config.keyRing })
  await startPartitionsAhead(host, pool)
  await startRetention(host, config)
  const stats = await startStats(host, pool)
  await startDeliveries(host, config, { ...ring, redis, directory, settings, stats })
  await startReplays(host, config, redis)
  ops.markStarted()
  return { opsPort: ops.port }
}

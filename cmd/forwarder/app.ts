import { type Core, openCore } from '#cmd/serving/core.ts'
import type { CommonConfig } from '#cmd/serving/ops.ts'
import type { ServingPorts } from '#cmd/serving/run.ts'
import { startQueueStats } from '#cmd/serving/stats.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { type DeliveriesConfig, startDeliveries } from './deliveries.ts'
import { startFeedMarks } from './feed-marks.ts'
import { startReplays } from './replays.ts'
import { startRetention } from './retention.ts'

/** Connection pool for the tenant directory and the settings. Deliveries have their own pool. */
const stores = { applicationName: 'latchkey-forwarder', connectionsMax: 2, queryTimeoutMs: 5_000 }

export async function startForwarder(
  host: Host,
  config: DeliveriesConfig & CommonConfig,
): Promise<ServingPorts> {
  const core = await openCore(host, config, {
    ...stores,
    check: 'deliveries',
    reason: 'deliveries have not started yet',
  })
  await startQueueStats(host, core)
  await startForwarding(host, config, core)
  core.ops.markStarted()
  return { opsPort: core.ops.port }
}

/** Starts, in this order: retention, recording of feed positions, deliveries, replays. They run until the scope closes. */
export async function startForwarding(host: Host, config: DeliveriesConfig, core: Core): Promise<void> {
  await startRetention(host, config)
  await startFeedMarks(host, core.pool)
  await startDeliveries(host, config, core)
  await startReplays(host, config, core)
}

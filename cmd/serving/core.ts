import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { type KeyRingParts, openKeyRing } from './key-ring.ts'
import { countNotifications, type OnNotified } from './notifications.ts'
import { type CommonConfig, type OpsPort, type OpsPortOptions, openOpsPort } from './ops.ts'
import { openSettings } from './settings.ts'
import { startStats } from './stats.ts'
import { openStores, type PostgresOptions, type Stores } from './stores.ts'
import type { Host } from './telemetry.ts'
import { openDirectory } from './tenants.ts'

export interface Core extends KeyRingParts, Stores {
  readonly ops: OpsPort
  readonly settings: SettingsWatch
  readonly directory: Directory
  readonly stats: StatsTally
  readonly onNotified: OnNotified
}

/** Opens, in this order: ops port, stores, settings, tenants, key ring, statistics. Call once per process. */
export async function openCore(
  host: Host,
  config: CommonConfig,
  { check, reason, ...pool }: Pick<OpsPortOptions, 'check' | 'reason'> & Omit<PostgresOptions, 'url' | 'tls'>,
): Promise<Core> {
  const ops = await openOpsPort(host, { ...config, check, reason })
  const stores = await openStores(host, config, pool)
  const settings = await openSettings(host, stores)
  const directory = await openDirectory(host, stores)
  const { keyRing, keyRingReplacesLost: replacesLost } = config
  const ring = await openKeyRing(host, { pool: stores.pool, directory, keyRing, replacesLost })
  const stats = await startStats(host, stores.pool)
  return { ops, ...stores, settings, directory, ...ring, stats, onNotified: countNotifications(host) }
}

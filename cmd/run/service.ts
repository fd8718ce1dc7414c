import { resolve } from 'node:path'
import {
  type ApiConfig,
  type ApiPortParts,
  apiStores,
  openApiPort,
  type ServerAddress,
} from '#cmd/api/app.ts'
import { observeRequests, withRecordEvents } from '#cmd/api/telemetry.ts'
import { startUsage } from '#cmd/api/usage.ts'
import {
  type BackofficePortConfig,
  type BackofficePortParts,
  openBackofficePort,
} from '#cmd/backoffice/port.ts'
import { startForwarding } from '#cmd/forwarder/app.ts'
import type { DeliveriesConfig } from '#cmd/forwarder/deliveries.ts'
import { type Core, openCore } from '#cmd/serving/core.ts'
import {
  type FolderTenants,
  type FolderTenantsOptions,
  openFolderTenants,
} from '#cmd/serving/folder-tenants.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { startQueueStats } from '#cmd/serving/stats.ts'
import { databaseOf } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import type { Config } from '#internal/config/index.ts'
import { documentationPath } from '#internal/dashboard/index.ts'
import { createErrorLinks, urlHost } from '#internal/http/index.ts'

export type ServiceConfig = ApiConfig &
  DeliveriesConfig &
  Omit<BackofficePortConfig, 'drainMs'> &
  Pick<Config<'run'>, 'runProcesses' | 'tenantsDir' | 'dataDir'> &
  Pick<FolderTenantsOptions, 'callbackUrl' | 'rules' | 'onProviderInForce'> & {
    /** IP address of the backoffice's port. Default: `bindAddress`. */
    readonly backofficeBindAddress?: string | undefined
    /** True if callers reach the API at its own address, which is used unless `publicUrl` is set. Default: false. */
    readonly isLocal?: boolean
  }

/** The running service. A part is undefined if its process was not chosen. */
export interface Service {
  readonly core: Core
  readonly api: ServerAddress | undefined
  readonly backofficePort: number | undefined
  readonly tenants: FolderTenants | undefined
}

/**
 * Starts the chosen processes of the service in one process, in this order: API, backoffice, tenants of the folder, deliveries. Several
 * machines can share the stores; one of them reconciles the tenants.
 */
export async function startService(process: Host, config: ServiceConfig): Promise<Service> {
  const host = withRecordEvents(process)
  const runs = new Set(config.runProcesses)
  const core = await openCore(host, config, {
    ...apiStores,
    applicationName: 'latchkey-run',
    check: 'service',
    reason: 'the service has not started yet',
  })
  const usage = await startUsage(host, { ...core, actor: 'run' })
  let tenants: FolderTenants | undefined
  const manifestFileOf: BackofficePortParts['manifestFileOf'] = (tenant) => tenants?.source.fileOf(tenant)
  let links = config.docsUrl === undefined ? undefined : createErrorLinks(config.docsUrl)
  const errorLink: ApiPortParts['errorLink'] = (code) => links?.(code)
  const serving = { ...core, usage, manifestFileOf, errorLink, observe: observeRequests(host, core) }
  const api = runs.has('api') ? await openApiPort(host, config, serving) : undefined
  if (runs.has('backoffice') || runs.has('forwarder')) await startQueueStats(host, core)
  const { bindAddress, backofficeBindAddress = bindAddress, isLocal = false } = config
  const publicUrl = config.publicUrl ?? (isLocal ? api?.url : undefined)
  const backofficePort = runs.has('backoffice')
    ? await openBackofficePort(host, { ...config, publicUrl, bindAddress: backofficeBindAddress }, serving)
    : undefined
  // The port of the backoffice is known only now. Without a backoffice there are no links, unless the setting names the documentation.
  if (backofficePort !== undefined && !links)
    links = createErrorLinks(
      `http://${urlHost(backofficeBindAddress)}:${backofficePort}${documentationPath.slice(0, -1)}`,
    )
  if (runs.has('operator')) tenants = await openTenants(host, config, core)
  if (runs.has('forwarder')) await startForwarding(host, config, core)
  core.ops.markStarted()
  return { core, api, backofficePort, tenants }
}

function openTenants(host: Host, config: ServiceConfig, { redis, directory, keyRingGate }: Core) {
  const { keyRing, callbackUrl, rules, publicUrl, onProviderInForce } = config
  return openFolderTenants(host, {
    database: databaseOf(config),
    redis,
    directory,
    keyRing,
    keyRingOpened: keyRingGate.opened,
    tenantsDir: resolve(config.tenantsDir),
    dataDir: resolve(config.dataDir),
    callbackUrl,
    rules,
    publicUrl,
    onProviderInForce,
    callbackBounds: callbackBoundsOf(config),
  })
}

import { type KeyRingParts, openKeyRing } from '#cmd/serving/key-ring.ts'
import { type CommonConfig, openOpsPort } from '#cmd/serving/ops.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startStats } from '#cmd/serving/stats.ts'
import { openStores } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { countRequestsByTenant } from '#cmd/serving/tenant-series.ts'
import { openDirectory } from '#cmd/serving/tenants.ts'
import { authenticateApiKey, type Principal } from '#internal/access/index.ts'
import { publicEventRoutes } from '#internal/backoffice/index.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import {
  BodyBudget,
  bindRoutes,
  createRequestObserver,
  createServer,
  listen,
  type RequestEvent,
  type Route,
} from '#internal/http/index.ts'
import { eventTypeRoutes, webhookRoutes } from '#internal/intake/index.ts'
import { contractRoutes, publicDocumentPath } from '#internal/openapi/index.ts'
import { explainStoreError, type RecordTenant, recordRoutes, Waiters } from '#internal/records/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import { type RedisConnection, redisCheck } from '#internal/storage/index.ts'
import { createSampler } from '#internal/telemetry/index.ts'
import type { ApiKeyScope, Directory } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { openEventApi } from './events.ts'
import { type IntakeConfig, startIntake } from './intake.ts'
import { startLockHistory } from './lock-history.ts'
import { startRecordStores } from './records.ts'
import { startSimulations } from './simulations.ts'
import { registerGauges, startReadiness, withRecordEvents } from './telemetry.ts'
import { startUsage, type Usage } from './usage.ts'

/** Settings of the API. `npm run dev` sets them in code instead of reading the environment. */
export type ApiConfig = Pick<Config<'api'>, 'apiPort' | 'recordTtlSecondsMax' | 'recordBodyBytesMax'> &
  IntakeConfig &
  CommonConfig & {
    /** Seconds for which the API still accepts new calls after shutdown has begun; default 0. */
    readonly shutdownDelaySeconds?: number
    /** Base URL under which callers outside reach the API, for its OpenAPI document. `npm run dev` has none. */
    readonly publicUrl?: string | undefined
  }

/** A running API process with its ports and shared dependencies. */
export interface Api extends KeyRingParts {
  /** Actual port, also when the configured port is 0. */
  readonly port: number
  readonly opsPort: number
  /** Base URLs of the public port and the ops port for callers on this machine, without a trailing slash. */
  readonly url: string
  readonly opsUrl: string
  readonly directory: Directory
  readonly redis: RedisConnection
  readonly settings: SettingsWatch
  readonly stats: StatsTally
  readonly usage: Usage
  /** Logs and counts a finished request. `npm run dev` also uses this function for the dashboard port. */
  observe(event: RequestEvent, cause: unknown): void
}

/**
 * Memory for webhook bodies, separate from the memory for callers with an API key: any caller that knows a slug can send up to 25 MiB,
 * while callers with an API key send at most 1 MiB.
 */
const webhookBodiesBytes = 48 * 1024 * 1024
const keyedBodiesBytes = 16 * 1024 * 1024
/**
 * Turns sequential scans off. A session caches its plans, so a plan that scans a small table would stay in use after the table has grown.
 */
const stores = {
  applicationName: 'latchkey-api',
  connectionsMax: 10,
  queryTimeoutMs: 2000,
  sessionSettings: { jit: 'off', enable_seqscan: 'off' },
}
/**
 * Divisor: the shutdown delay may use at most a quarter of the remaining shutdown time. The rest is for open calls and for closing the
 * stores.
 */
const delayShare = 4
/**
 * Maximum wait in ms for open calls during shutdown. Long enough to receive a short body and to get the response of a store. Checks that
 * wait for a lock get their response immediately; longer uploads are aborted.
 */
const drainMsMax = 12_000

/** Starts the API in this order: ops port, stores, settings, tenants, records, intake, simulations, public port. */
export async function startApi(process: Host, config: ApiConfig): Promise<Api> {
  const host = withRecordEvents(process)
  const { metrics, health } = host
  const ops = await openOpsPort(host, {
    ...config,
    check: 'api port',
    reason: 'the API port is not open yet',
  })
  const { pool, redis } = await openStores(host, config, stores)
  const settings = await openSettings(host, { pool, redis })
  const directory = await openDirectory(host, { pool, redis })
  const ring = await openKeyRing(host, { pool, directory, keyRing: config.keyRing })
  const waiters = new Waiters(redis)
  health.addCheck(
    'redis',
    redisCheck(redis, () => directory.hasOnlyDurableRecords()),
  )
  registerGauges(metrics, directory, waiters)
  await startReadiness(host)
  const usage = await startUsage(host, { pool, redis, directory, settings, actor: 'api' })
  const retentionDefaults = () => settings.current.retention
  const lockHistory = await startLockHistory(host, { pool, directory, retentionDefaults })
  const records = {
    storeOf: await startRecordStores(host, config, { pool, redis, directory, usage, note: lockHistory.note }),
    waiters,
    ttlSecondsMax: config.recordTtlSecondsMax,
    bodyBytesMax: config.recordBodyBytesMax,
    limitsOf: (tenant: RecordTenant) => usage.limits.of(tenant).locks,
    onChecked: host.checked,
    ending: host.scope.signal,
  }
  const stats = await startStats(host, pool)
  const intake = await startIntake(host, config, {
    pool,
    redis,
    directory,
    secrets: ring.secrets,
    settings,
    usage,
    stats,
  })
  const simulations = await startSimulations(host, { pool, directory, intake, stats, retentionDefaults })
  const routes: readonly Route<Principal, ApiKeyScope>[] = [
    ...bindRoutes(recordRoutes, records),
    ...bindRoutes(webhookRoutes, intake),
    ...bindRoutes(simulationRoutes, simulations),
    ...bindRoutes(eventTypeRoutes, undefined),
    ...bindRoutes(publicEventRoutes, await openEventApi(host, config, { redis, directory, usage })),
    ...contractRoutes(config),
  ]
  const observe = requestObserver(host, { directory, settings })
  const delayMs = (config.shutdownDelaySeconds ?? 0) * 1000
  const server = await host.scope.open({
    name: 'api port',
    open: () =>
      listen(publicServer(host, { directory, routes, observe }), config.apiPort, config.bindAddress),
    close: async (opened, leftMs) => {
      health.startDraining()
      // Load balancers keep sending requests until their health check sees that the process is not ready.
      await Bun.sleep(Math.min(delayMs, leftMs / delayShare))
      await opened.stop()
    },
    closeMsMax: delayMs + drainMsMax,
  })
  ops.markStarted()
  return {
    ...{ port: server.port, opsPort: ops.port, url: server.url, opsUrl: ops.ownUrl },
    ...{ ...ring, directory, redis, settings, stats, usage, observe },
  }
}

function requestObserver(
  { log, metrics }: Host,
  { directory, settings }: Pick<Api, 'directory' | 'settings'>,
): Api['observe'] {
  const keepsLine = createSampler(() => settings.current.logShare)
  const observe = createRequestObserver({ log, metrics, clock: systemClock, keepsLine })
  const countByTenant = countRequestsByTenant(metrics, directory)
  return (event, cause) => {
    countByTenant(event)
    observe(event, cause)
  }
}

interface PublicParts extends Pick<Api, 'directory' | 'observe'> {
  readonly routes: readonly Route<Principal, ApiKeyScope>[]
}

function publicServer({ tracing, health }: Host, { directory, routes, observe }: PublicParts) {
  return createServer<Principal, ApiKeyScope>({
    routes,
    authorize: (authorization, scope) => authenticateApiKey(directory, authorization, scope),
    nameOf: (principal) => principal.tenant.id,
    explain: explainStoreError,
    documentPath: publicDocumentPath,
    onAnswered: observe,
    isDraining: () => health.isDraining(),
    tracing,
    budgets: {
      keyed: new BodyBudget({ bytesMax: keyedBodiesBytes, gathersSmall: true }),
      anonymous: new BodyBudget({ bytesMax: webhookBodiesBytes }),
    },
  })
}

import { type Core, openCore } from '#cmd/serving/core.ts'
import type { CommonConfig } from '#cmd/serving/ops.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { authenticateApiKey, type Principal } from '#internal/access/index.ts'
import { publicEventRoutes } from '#internal/backoffice/index.ts'
import type { Config } from '#internal/config/index.ts'
import {
  BodyBudget,
  bindRoutes,
  createErrorLinks,
  createServer,
  listen,
  type RequestEvent,
  type Route,
  type ServerOptions,
} from '#internal/http/index.ts'
import { webhookRoutes } from '#internal/intake/index.ts'
import { contractRoutes, publicDocumentPath } from '#internal/openapi/index.ts'
import { eventTypeRoutes } from '#internal/providers/index.ts'
import { explainStoreError, type RecordTenant, recordRoutes, Waiters } from '#internal/records/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import { redisCheck } from '#internal/storage/index.ts'
import type { ApiKeyScope, Directory } from '#internal/tenants/index.ts'
import { openEventApi } from './events.ts'
import { type IntakeConfig, startIntake } from './intake.ts'
import { startLockHistory } from './lock-history.ts'
import { startRecordStores } from './records.ts'
import { startSimulations } from './simulations.ts'
import {
  type ApiHost,
  observeRequests,
  registerGauges,
  startReadiness,
  withRecordEvents,
} from './telemetry.ts'
import { startUsage, type Usage } from './usage.ts'

/** `npm run dev` sets these settings in code instead of reading the environment. */
export type ApiConfig = Pick<Config<'api'>, 'apiPort' | 'recordTtlSecondsMax' | 'recordBodyBytesMax'> &
  IntakeConfig &
  CommonConfig & {
    /** Seconds for which the API still accepts new calls after shutdown has begun; default 0. */
    readonly shutdownDelaySeconds?: number
    /** Address of the documentation, to which errors link. Default: no links. */
    readonly docsUrl?: string | undefined
    /** Base URL under which callers outside reach the API, for its OpenAPI document. */
    readonly publicUrl?: string | undefined
  }

export interface Api extends ServerAddress {
  readonly opsPort: number
  readonly directory: Directory
}

export interface ServerAddress {
  /** Actual port, also when the configured port is 0. */
  readonly port: number
  /** Base URL for callers on this machine, without a trailing slash. */
  readonly url: string
}

export interface ApiPortParts extends Core {
  readonly usage: Usage
  observe(event: RequestEvent, cause: unknown): void
  readonly errorLink?: ServerOptions<Principal, ApiKeyScope>['errorLink']
}

/**
 * Memory for webhook bodies, separate from the memory for callers with an API key: any caller that knows a slug can send up to 25 MiB,
 * while callers with an API key send at most 1 MiB.
 */
const webhookBodiesBytes = 48 * 1024 * 1024
const keyedBodiesBytes = 16 * 1024 * 1024
/** Maximum length of a body that the runtime buffers for a caller with an API key. */
const keyedGatheredBytesMax = 16 * 1024
/**
 * Pool of records and intake. Turns sequential scans off, because a session caches query plans: a plan that scans a small table would stay
 * in use after the table has grown.
 */
export const apiStores = {
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

export async function startApi(process: Host, config: ApiConfig): Promise<Api> {
  const host = withRecordEvents(process)
  const core = await openCore(host, config, {
    ...apiStores,
    applicationName: 'latchkey-api',
    check: 'api port',
    reason: 'the API port is not open yet',
  })
  const usage = await startUsage(host, { ...core, actor: 'api' })
  const errorLink = config.docsUrl === undefined ? undefined : createErrorLinks(config.docsUrl)
  const server = await openApiPort(host, config, {
    ...core,
    usage,
    errorLink,
    observe: observeRequests(host, core),
  })
  core.ops.markStarted()
  return { ...server, opsPort: core.ops.port, directory: core.directory }
}

/** Opens the public port until the scope closes, in this order: records, intake, simulations, port. */
export async function openApiPort(
  host: ApiHost,
  config: ApiConfig,
  parts: ApiPortParts,
): Promise<ServerAddress> {
  const { metrics, health } = host
  const { pool, redis, directory, settings, secrets, stats, usage } = parts
  const waiters = new Waiters(redis)
  health.addCheck(
    'redis',
    redisCheck(redis, () => directory.hasOnlyDurableRecords()),
  )
  registerGauges(metrics, directory, waiters)
  await startReadiness(host)
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
  const intake = await startIntake(host, config, { pool, redis, directory, secrets, settings, usage, stats })
  const simulations = await startSimulations(host, { pool, directory, intake, stats, retentionDefaults })
  const routes: readonly Route<Principal, ApiKeyScope>[] = [
    ...bindRoutes(recordRoutes, records),
    ...bindRoutes(webhookRoutes, intake),
    ...bindRoutes(simulationRoutes, simulations),
    ...bindRoutes(eventTypeRoutes, undefined),
    ...bindRoutes(publicEventRoutes, await openEventApi(host, config, { redis, directory, usage })),
    ...contractRoutes(config),
  ]
  const delayMs = (config.shutdownDelaySeconds ?? 0) * 1000
  const server = await host.scope.open({
    name: 'api port',
    open: () => listen(publicServer(host, { ...parts, routes }), config.apiPort, config.bindAddress),
    close: async (opened, leftMs) => {
      health.startDraining()
      // Waits, because load balancers send requests until their health check sees that the process is not ready.
      await Bun.sleep(Math.min(delayMs, leftMs / delayShare))
      await opened.stop()
    },
    closeMsMax: delayMs + drainMsMax,
  })
  return { port: server.port, url: server.url }
}

interface PublicParts extends Pick<ApiPortParts, 'directory' | 'observe' | 'errorLink'> {
  readonly routes: readonly Route<Principal, ApiKeyScope>[]
}

function publicServer({ tracing, health }: Host, { directory, routes, observe, errorLink }: PublicParts) {
  return createServer<Principal, ApiKeyScope>({
    routes,
    authorize: (authorization, scope) => authenticateApiKey(directory, authorization, scope),
    nameOf: (principal) => principal.tenant.id,
    explain: explainStoreError,
    documentPath: publicDocumentPath,
    errorLink,
    onAnswered: observe,
    isDraining: health.isDraining,
    tracing,
    budgets: {
      keyed: new BodyBudget({ bytesMax: keyedBodiesBytes, gatheredBytesMax: keyedGatheredBytesMax }),
      anonymous: new BodyBudget({ bytesMax: webhookBodiesBytes }),
    },
  })
}

import { type Usage } from '#cmd/api/usage.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { type DatabaseSettings, databaseOf, eventReads, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import {
  type Access,
  type AccessObserver,
  createAccess,
  createSessions,
  type Operators,
} from '#internal/access/index.ts'
import {
  type Backoffice,
  type BackofficeParts,
  createBackoffice,
  internalRoutes,
  isStoreAway,
  readStatusVersion,
  searchConnectionsMax,
} from '#internal/backoffice/index.ts'
import { apiError, systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import {
  createDashboard,
  type Dashboard,
  type DashboardOptions,
  documentationPath,
} from '#internal/dashboard/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
import {
  BodyBudget,
  bindRoutes,
  createErrorLinks,
  createServer,
  listen,
  type RequestEvent,
  type Route,
} from '#internal/http/index.ts'
import { Callers, countCall } from '#internal/intake/index.ts'
import type { Transport } from '#internal/kube/index.ts'
import { internalDocumentPath, internalDocumentRoutes } from '#internal/openapi/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory, SecretOpener } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'

export interface BackofficePortConfig
  extends DatabaseSettings,
    Pick<Config<'backoffice'>, 'backofficePort' | 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy'> {
  readonly publicUrl?: string | undefined
  /** Address of the documentation, to which errors link. Default: the pages of this port. */
  readonly docsUrl?: string | undefined
  /** IP address to listen on. Default: all interfaces. */
  readonly bindAddress?: string | undefined
  /** Operators with tokens of their own, outside of a cluster. */
  readonly operators?: Operators | undefined
  /** Returns a note that the dashboard shows above its charts. */
  readonly statsNote?: DashboardOptions['statsNote']
  /** Time in ms for which the port still accepts new calls during shutdown; default 0. */
  readonly drainMs?: number
}

export interface BackofficePortParts {
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly secrets: SecretOpener
  readonly settings: SettingsWatch
  readonly usage: Usage
  readonly stats: StatsTally
  readonly manifestFileOf?: BackofficeParts['manifestFileOf']
  /** Connection to the API server. Without it, only tenants' keys can authenticate. */
  readonly transport?: Transport | undefined
  /** Called for each finished request. `cause` is the exception if the request failed. */
  observe(event: RequestEvent, cause: unknown): void
}

const writePool = { applicationName: 'latchkey-backoffice', connectionsMax: 4, queryTimeoutMs: 5_000 }
/** Searches occupy at most three of the four connections. */
const readPool = {
  applicationName: 'latchkey-backoffice reads',
  connectionsMax: searchConnectionsMax + 1,
  queryTimeoutMs: 5_000,
  ...eventReads,
}
/** Memory for request bodies. Fits two events of maximum size at a time, in addition to smaller bodies. */
const bodiesBytes = 64 * 1024 * 1024
/** Maximum wait in ms for open calls during shutdown. Longer than the longest call, which sends a test event to a callback. */
const drainMsMax = 35_000

/** Opens the port of the internal API and the dashboard until the scope closes. Returns the actual port. */
export async function openBackofficePort(
  host: Host,
  config: BackofficePortConfig,
  parts: BackofficePortParts,
): Promise<number> {
  const pools = {
    pool: await openPostgres(host, 'postgres of the backoffice', { ...writePool, ...databaseOf(config) }),
    readPool: await openPostgres(host, 'postgres of the backoffice’s reads', {
      ...readPool,
      ...databaseOf(config),
    }),
  }
  const access = createAccess({
    directory: parts.directory,
    clock: systemClock,
    transport: parts.transport,
    operators: config.operators,
    observer: accessObserver(host),
  })
  const backoffice = await openBackoffice(host, config, { ...parts, ...pools, access })
  const dashboard = createDashboard({
    backoffice,
    access,
    directory: parts.directory,
    clock: systemClock,
    sessions: createSessions({ pool: pools.pool, clock: systemClock, access }),
    hasOperators: config.operators !== undefined,
    statsNote: config.statsNote,
    readStatusVersion: () => readStatusVersion(pools.pool),
  })
  unlabelled(host.metrics).gauge('latchkey_dashboard_live_pages_count', 'Open live pages.', () =>
    dashboard.liveCount(),
  )
  const routes = [
    ...bindRoutes(internalRoutes, { backoffice, access }),
    ...internalDocumentRoutes(),
    ...dashboard.routes,
  ]
  const { docsUrl = documentationPath.slice(0, -1) } = config
  const server = await host.scope.open({
    name: 'backoffice port',
    open: () =>
      listen(
        portServer(parts, host, { routes, dashboard, docsUrl }),
        config.backofficePort,
        config.bindAddress,
      ),
    close: async (opened) => {
      host.health.startDraining()
      // Waits, because load balancers send requests until their health check sees that the process is not ready.
      await Bun.sleep(config.drainMs ?? 0)
      dashboard.close()
      await opened.stop()
    },
    closeMsMax: (config.drainMs ?? 0) + drainMsMax,
  })
  return server.port
}

interface UseCaseParts extends BackofficePortParts {
  readonly pool: Pool
  readonly readPool: Pool
  readonly access: Access
}

async function openBackoffice(
  { log, scope }: Host,
  { callbackCidrsMax, callbackPorts, egressProxy, publicUrl }: BackofficePortConfig,
  { settings, usage, stats, ...parts }: UseCaseParts,
): Promise<Backoffice> {
  const outbound = await scope.open({
    name: 'test calls to callbacks',
    open: () => createOutbound({ ...callbackBoundsOf({ callbackCidrsMax, callbackPorts }), egressProxy }),
    close: (opened) => opened.close(),
  })
  return createBackoffice({
    ...parts,
    publicUrl,
    outbound,
    clock: systemClock,
    limits: usage.limits,
    meter: usage.meter,
    callers: new Callers({
      directory: parts.directory,
      secrets: parts.secrets,
      settings,
    }),
    retentionDefaults: () => settings.current.retention,
    onIngested: (events) => {
      usage.meter.events.countStored(events)
      for (const { tenantId } of events) countCall(stats, tenantId, 'stored')
    },
    onSoftCrossing: usage.onSoftCrossing,
    onTrouble: (cause) => log.warn({ cause }, 'store of the back office is unavailable'),
  })
}

function portServer(
  { observe }: BackofficePortParts,
  { tracing, health }: Host,
  {
    routes,
    dashboard,
    docsUrl,
  }: {
    readonly routes: readonly Route<never, never>[]
    readonly dashboard: Dashboard
    readonly docsUrl: string
  },
) {
  return createServer<never, never>({
    routes,
    // Returns an error for every API key, because each route in this table authenticates its callers itself.
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: explainDatabase,
    present: (error, request, requestId) => dashboard.presentError(error, request, requestId),
    answerUnknown: (call) => dashboard.answerUnknown(call),
    documentPath: internalDocumentPath,
    errorLink: createErrorLinks(docsUrl),
    onAnswered: observe,
    isDraining: health.isDraining,
    tracing,
    budgets: { keyed: new BodyBudget({ bytesMax: 1 }), anonymous: new BodyBudget({ bytesMax: bodiesBytes }) },
  })
}

/** Returns the error for an exception of a session look-up, which bypasses the use cases and throws while the database is unavailable. */
function explainDatabase(error: unknown) {
  return isStoreAway(error) ? apiError('database_unavailable', undefined, { 'Retry-After': '1' }) : undefined
}

/** Counts access reviews and logs those that failed. Declares a metric; call once per process. */
function accessObserver({ log, metrics }: Pick<Host, 'log' | 'metrics'>): AccessObserver {
  const reviews = metrics.counter({
    name: 'latchkey_access_reviews_total',
    help: 'Token and access reviews sent to the API server, by outcome. Cached results are not counted.',
    labels: ['review', 'outcome'],
  })
  for (const review of ['token', 'access'])
    for (const outcome of ['allowed', 'refused', 'unavailable']) reviews.with(review, outcome).inc(0)
  return {
    reviewed(review, outcome, failure) {
      reviews.with(review, outcome).inc()
      if (failure !== undefined)
        log.warn({ review, failure: failure.message }, 'access review failed: the API server is unavailable')
    },
  }
}

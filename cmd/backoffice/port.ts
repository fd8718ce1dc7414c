import { countCall } from '#cmd/api/intake-telemetry.ts'
import { type Usage } from '#cmd/api/usage.ts'
import { callbackBoundsOf } from '#cmd/serving/settings.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { type Access, createAccess, createSessions } from '#internal/access/index.ts'
import { type Backoffice, createBackoffice, internalRoutes, isStoreAway } from '#internal/backoffice/index.ts'
import { apiError, systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createDashboard, type Dashboard, type DashboardOptions } from '#internal/dashboard/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
import { eventReadSettings } from '#internal/events/index.ts'
import {
  BodyBudget,
  bindRoutes,
  createServer,
  listen,
  type RequestEvent,
  type Route,
} from '#internal/http/index.ts'
import { Callers } from '#internal/intake/index.ts'
import type { Transport } from '#internal/kube/index.ts'
import { internalContractRoutes } from '#internal/openapi/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory, SecretOpener } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { createAccessObserver } from './access-telemetry.ts'

/** The settings of the port for people and for other services. */
export interface BackofficePortConfig
  extends DatabaseSettings,
    Pick<Config<'dev'>, 'backofficePort' | 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy'> {
  readonly publicUrl?: string | undefined
  /** The IP address to listen on; default all interfaces. */
  readonly bindAddress?: string | undefined
  /** The token of `npm run dev`; absent everywhere else. */
  readonly devToken?: string | undefined
  /** What the dashboard is to say of stats; absent: nothing. */
  readonly statsNote?: DashboardOptions['statsNote']
  /** How long new calls are still taken once the process is ending; default 0. */
  readonly drainMs?: number
}

/** What the port stands on. */
export interface BackofficePortParts {
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly secrets: SecretOpener
  readonly settings: SettingsWatch
  readonly usage: Pick<Usage, 'limits' | 'eventMeter'>
  readonly stats: StatsTally
  /** The API server; absent where there is none: then tenants' keys alone let anybody in. */
  readonly transport?: Transport | undefined
  /** Told of each answered request. */
  observe(event: RequestEvent, cause: unknown): void
}

const writePool = { applicationName: 'latchkey-backoffice', connectionsMax: 4, queryTimeoutMs: 5_000 }
const readPool = {
  applicationName: 'latchkey-backoffice reads',
  connectionsMax: 4,
  queryTimeoutMs: 5_000,
  sessionSettings: eventReadSettings,
  /** A session remembers the plans of each day that it met; after an hour it makes way. */
  lifetimeMsMax: 3_600_000,
}
/** Two of the largest events at a time, and room for all else. */
const bodiesBytes = 64 * 1024 * 1024
/** The longest call is that of a callback which is tried out. */
const drainMsMax = 35_000

/** Opens the port of the internal contract and the dashboard for the scope's life. Gives the port that is listened on. */
export async function openBackofficePort(
  config: BackofficePortConfig,
  parts: BackofficePortParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<number> {
  const pools = {
    pool: await openPostgres(
      'postgres of the backoffice',
      { ...writePool, ...databaseOf(config) },
      telemetry,
      scope,
    ),
    readPool: await openPostgres(
      'postgres of the backoffice’s reads',
      { ...readPool, ...databaseOf(config) },
      telemetry,
      scope,
    ),
  }
  const access = createAccess({
    ...{ directory: parts.directory, clock: systemClock, transport: parts.transport },
    devToken: config.devToken,
    observer: createAccessObserver(telemetry),
  })
  const backoffice = await openBackoffice(config, { ...parts, ...pools, access }, telemetry, scope)
  const dashboard = createDashboard({
    ...{ backoffice, access, directory: parts.directory, clock: systemClock },
    sessions: createSessions({ pool: pools.pool, clock: systemClock, access }),
    isDev: config.devToken !== undefined,
    statsNote: config.statsNote,
  })
  unlabelled(telemetry.metrics).gauge(
    'latchkey_dashboard_live_pages_count',
    'Pages that are followed live.',
    () => dashboard.liveCount(),
  )
  const routes = [
    ...bindRoutes(internalRoutes, { backoffice, access }),
    ...internalContractRoutes(),
    ...dashboard.routes,
  ]
  const server = await scope.open({
    name: 'backoffice port',
    open: () =>
      listen(portServer(parts, telemetry, routes, dashboard), config.backofficePort, config.bindAddress),
    close: async (opened) => {
      telemetry.health.startDraining()
      // Load balancers go on sending until they have seen that the process is not ready.
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
  { callbackCidrsMax, callbackPorts, egressProxy, publicUrl }: BackofficePortConfig,
  { settings, usage, stats, ...parts }: UseCaseParts,
  { log }: ProcessTelemetry,
  scope: Scope,
): Promise<Backoffice> {
  const outbound = await scope.open({
    name: 'callbacks that are tried out',
    open: () => createOutbound({ ...callbackBoundsOf({ callbackCidrsMax, callbackPorts }), egressProxy }),
    close: (opened) => opened.close(),
  })
  return createBackoffice({
    ...{ ...parts, publicUrl, outbound, clock: systemClock, limits: usage.limits },
    callers: new Callers({
      ...{ directory: parts.directory, secrets: parts.secrets },
      isPaused: (provider, tenantId) => settings.current.isProviderPaused(provider, tenantId),
    }),
    retentionDefaults: () => settings.current.retention,
    onAppended: (events) => {
      usage.eventMeter.countStored(events)
      for (const { tenantId } of events) countCall(stats, tenantId, 'stored')
    },
    onTrouble: (cause) => log.warn({ cause }, 'a store did not answer the backoffice'),
  })
}

function portServer(
  { observe }: BackofficePortParts,
  { tracing, health }: ProcessTelemetry,
  routes: readonly Route<never, never>[],
  dashboard: Dashboard,
) {
  return createServer<never, never>({
    routes,
    // No route of this table asks for an API key here: each asks by itself who calls.
    authorize: () => apiError('api_key_invalid'),
    nameOf: () => '',
    explain: explainDatabase,
    present: (error, request, requestId) => dashboard.presentError(error, request, requestId),
    answerUnknown: (call) => dashboard.answerUnknown(call),
    onAnswered: observe,
    isDraining: () => health.isDraining(),
    ...(tracing.enabled && {
      traced: (name, traceparent, work) => tracing.span(name, { kind: 'server', traceparent }, work),
    }),
    budgets: { keyed: new BodyBudget({ bytesMax: 1 }), anybody: new BodyBudget({ bytesMax: bodiesBytes }) },
  })
}

/** Sessions are looked up outside of the use cases, which say by themselves that a store is away. */
function explainDatabase(error: unknown) {
  return isStoreAway(error) ? apiError('database_unavailable', undefined, { 'Retry-After': '1' }) : undefined
}

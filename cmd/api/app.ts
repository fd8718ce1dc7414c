import { type KeyRingParts, openKeyRing } from '#cmd/serving/key-ring.ts'
import { type BindConfig, openOpsPort } from '#cmd/serving/ops.ts'
import { openSettings } from '#cmd/serving/settings.ts'
import { startStats } from '#cmd/serving/stats.ts'
import { databaseOf, openStores, redisOf } from '#cmd/serving/stores.ts'
import { countRequestsByTenant } from '#cmd/serving/tenant-series.ts'
import { openDirectory } from '#cmd/serving/tenants.ts'
import { authenticateApiKey, type Principal } from '#internal/access/index.ts'
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
import { webhookRoutes } from '#internal/intake/index.ts'
import { contractRoutes } from '#internal/openapi/index.ts'
import type { Scope } from '#internal/process/index.ts'
import {
  explainStoreError,
  RecordStore,
  type RecordTenant,
  recordRoutes,
  Waiters,
} from '#internal/records/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import { simulationRoutes } from '#internal/simulations/index.ts'
import { type RedisConnection, redisCheck, schemaCheck } from '#internal/storage/index.ts'
import { createSampler } from '#internal/telemetry/index.ts'
import type { ApiKeyScope, Directory, KeyRing } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { type IntakeConfig, startIntake } from './intake.ts'
import { startLockHistory } from './lock-history.ts'
import { startSimulations } from './simulations.ts'
import { registerGauges, startLoops, type Telemetry, traced } from './telemetry.ts'
import { startUsage, type Usage } from './usage.ts'

/** The settings that the API needs: those of its own process, or dev's with its stores. */
export type ApiConfig = Pick<
  Config<'api'>,
  'apiPort' | 'opsPort' | 'recordTtlSecondsMax' | 'recordBodyBytesMax'
> &
  IntakeConfig &
  BindConfig & {
    readonly keyRing: KeyRing
    /** Time for which new calls are accepted after shutdown began; default 0. */
    readonly shutdownDelaySeconds?: number
  }

/** A running API. */
export interface Api extends KeyRingParts {
  /** The port that is listened on, also where the configured one was 0. */
  readonly port: number
  readonly opsPort: number
  /** Base URLs by which this machine reaches the two ports, without / at the end. */
  readonly url: string
  readonly opsUrl: string
  readonly directory: Directory
  readonly redis: RedisConnection
  readonly settings: SettingsWatch
  readonly stats: StatsTally
  readonly usage: Usage
  /** Records an answered request; also used by other ports of this process. */
  observe(event: RequestEvent, cause: unknown): void
}

/**
 * Memory for bodies. Any caller that knows a slug can send webhooks, of up to 25 MiB; callers with a key are known and send 1 MiB
 * at most.
 */
const webhookBodiesBytes = 48 * 1024 * 1024
const keyedBodiesBytes = 16 * 1024 * 1024
/** A session keeps the plans that it made first: none may read a table whole that was small then. */
const stores = {
  applicationName: 'latchkey-api',
  connectionsMax: 10,
  queryTimeoutMs: 2000,
  sessionSettings: { jit: 'off', enable_seqscan: 'off' },
}
/** Divisor of the shutdown time for the delay; the rest is for calls in flight and the stores. */
const delayShare = 4
/**
 * Longer than a short body and the store's answer after it may take; callers that wait are answered at once. A long body
 * that needs more is cut off and not acknowledged.
 */
const drainMsMax = 12_000

/** Opens the API's parts in order: stores, tenants, records, the loops behind them, then the two ports. */
export async function startApi(config: ApiConfig, telemetry: Telemetry, scope: Scope): Promise<Api> {
  const { metrics, health } = telemetry
  const ops = await openOpsPort({ ...config, check: 'api port', reason: 'not opened yet' }, telemetry, scope)
  const { pool, redis } = await openStores(
    { ...stores, database: databaseOf(config), redis: redisOf(config) },
    telemetry,
    scope,
  )
  const settings = await openSettings({ pool, redis }, telemetry, scope)
  const directory = await openDirectory(pool, telemetry, scope)
  const ring = await openKeyRing({ pool, directory, keyRing: config.keyRing }, telemetry, scope)
  const waiters = new Waiters(redis)
  health.addCheck('schema', schemaCheck(pool))
  health.addCheck('redis', redisCheck(redis))
  registerGauges(metrics, directory, waiters)
  await startLoops({ scope, telemetry, redis, directory })
  const usage = await startUsage({ pool, redis, directory, settings }, telemetry, scope)
  const retentionDefaults = () => settings.current.retention
  const lockHistory = await startLockHistory({ pool, directory, retentionDefaults }, telemetry, scope)
  const records = {
    store: new RecordStore(redis, usage.meter, { note: lockHistory.note }),
    waiters,
    ttlSecondsMax: config.recordTtlSecondsMax,
    bodyBytesMax: config.recordBodyBytesMax,
    limitsOf: (tenant: RecordTenant) => usage.limits.of(tenant).locks,
    onChecked: telemetry.checked,
    ending: scope.signal,
  }
  const stats = await startStats(pool, telemetry, scope)
  const intake = await startIntake(
    config,
    { pool, redis, directory, secrets: ring.secrets, settings, usage, stats },
    telemetry,
    scope,
  )
  const simulations = await startSimulations(
    { pool, directory, intake, stats, retentionDefaults },
    telemetry,
    scope,
  )
  const routes: readonly Route<Principal, ApiKeyScope>[] = [
    ...bindRoutes(recordRoutes, records),
    ...bindRoutes(webhookRoutes, intake),
    ...bindRoutes(simulationRoutes, simulations),
    ...contractRoutes(),
  ]
  const observe = requestObserver(telemetry, { directory, settings })
  const delayMs = (config.shutdownDelaySeconds ?? 0) * 1000
  const server = await scope.open({
    name: 'api port',
    open: () =>
      listen(publicServer(telemetry, { directory, routes, observe }), config.apiPort, config.bindAddress),
    close: async (opened, leftMs) => {
      health.startDraining()
      // Load balancers go on sending until they have seen that the process is not ready; connections that are kept end meanwhile.
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
  { log, metrics }: Telemetry,
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

function publicServer({ tracing, health }: Telemetry, { directory, routes, observe }: PublicParts) {
  return createServer<Principal, ApiKeyScope>({
    routes,
    authorize: (authorization, scope) => authenticateApiKey(directory, authorization, scope),
    nameOf: (principal) => principal.tenant.id,
    explain: explainStoreError,
    onAnswered: observe,
    isDraining: () => health.isDraining(),
    ...(tracing.enabled && { traced: traced(tracing) }),
    budgets: {
      keyed: new BodyBudget({ bytesMax: keyedBodiesBytes, gathersSmall: true }),
      anonymous: new BodyBudget({ bytesMax: webhookBodiesBytes }),
    },
  })
}

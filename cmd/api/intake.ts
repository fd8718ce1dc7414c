import { openLoop } from '#cmd/serving/loop.ts'
import { type DatabaseSettings, databaseOf, openPostgres, type RedisSettings } from '#cmd/serving/stores.ts'
import { systemClock } from '#internal/base/index.ts'
import { type StoreBatchOptions, storeBatch, tellForwarders } from '#internal/events/index.ts'
import { createSourceAddress } from '#internal/http/index.ts'
import {
  Callers,
  HeaderRules,
  type Intake,
  LargeBodies,
  RefusedCalls,
  SizedQueues,
  secretHeaders,
} from '#internal/intake/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory, SecretOpener } from '#internal/tenants/index.ts'
import type { FigureTally } from '#internal/usage/index.ts'
import { countCall } from './call-figures.ts'
import { type CertificateConfig, openCertificates } from './certificates.ts'
import { createIntakeObserver, type IntakeObserver } from './intake-telemetry.ts'
import { startSpool } from './spool.ts'
import type { Telemetry } from './telemetry.ts'
import type { Usage } from './usage.ts'

/** The settings of the intake. */
export interface IntakeConfig extends DatabaseSettings, RedisSettings {
  readonly signatureMaxAgeSeconds: number
  readonly trustedProxies?: readonly string[] | undefined
  readonly redisSpoolDurable: boolean
  readonly gatewaySandbox?: boolean
  readonly egressProxy?: string | undefined
  readonly certificates?: CertificateConfig
}

/** What the intake stands on. */
export interface IntakeParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly secrets: SecretOpener
  readonly settings: SettingsWatch
  readonly usage: Pick<Usage, 'eventMeter' | 'limits'>
  readonly figures: FigureTally
}

const refusedFlushMs = 1000
const turnMsMax = 5000
const largeEvents = {
  applicationName: 'latchkey-api large events',
  connectionsMax: 1,
  /** A body of 25 MiB takes Postgres most of a second, and several wait behind each other. */
  queryTimeoutMs: 6_000,
}

async function openQueues(
  config: IntakeConfig,
  storing: StoreBatchOptions,
  observer: IntakeObserver,
  telemetry: Telemetry,
  scope: Scope,
): Promise<SizedQueues> {
  const spool = await startSpool(config, storing, observer, telemetry, scope)
  const largePool = await openPostgres(
    'postgres for large events',
    { ...largeEvents, ...databaseOf(config) },
    telemetry,
    scope,
  )
  return scope.open({
    name: 'event queues',
    open: () =>
      new SizedQueues({
        storeBatch: (events, onSettled) => storeBatch(storing, events, onSettled),
        storeLarge: (events, onSettled) => storeBatch({ ...storing, pool: largePool }, events, onSettled),
        spool: (event) => spool.append(event),
        onBreaker: observer.storeBreaker,
      }),
    close: (opened) => opened.close(),
  })
}

/** Puts the intake of webhooks together and starts what runs behind it. */
export async function startIntake(
  config: IntakeConfig,
  { pool, redis, directory, secrets, settings, usage, figures }: IntakeParts,
  telemetry: Telemetry,
  scope: Scope,
): Promise<Intake> {
  const observer = createIntakeObserver(telemetry)
  const storing: StoreBatchOptions = {
    pool,
    // A publish that fails costs a poll's wait and nothing else.
    wake: (tenantIds) => void tellForwarders(redis, tenantIds).catch(() => undefined),
    onStored: (events) => usage.eventMeter.countStored(events),
    onError: observer.storeFailed,
  }
  const queue = await openQueues(config, storing, observer, telemetry, scope)
  const refusedCalls = new RefusedCalls(pool, systemClock)
  await openLoop(
    {
      name: 'refused calls',
      intervalMs: refusedFlushMs,
      turnMsMax,
      runOnce: () => refusedCalls.flush(),
      onError: (error, failures) =>
        telemetry.log.warn({ failures, cause: error }, 'refused calls could not be kept, trying again'),
      lastTurn: () => refusedCalls.flush(),
    },
    telemetry,
    scope,
  )
  const largeBodies = await scope.open({
    name: 'large bodies',
    open: () => new LargeBodies(),
    close: (opened) => opened.close(),
  })
  const certificates = await openCertificates(config, telemetry, scope)
  observer.watch({ queue, refusedCalls })
  return {
    callers: new Callers({
      directory,
      secrets,
      gatewaySandbox: config.gatewaySandbox ?? false,
      isPaused: (provider, tenantId) => settings.current.isProviderPaused(provider, tenantId),
    }),
    queue,
    largeBodies,
    certificates,
    refusedCalls,
    clock: systemClock,
    signatureAgeMsMax: config.signatureMaxAgeSeconds * 1000,
    headerRules: new HeaderRules(secretHeaders),
    checkLimits: (tenant) => usage.eventMeter.check(tenant.id, usage.limits.of(tenant).all),
    retentionDefaults: () => settings.current.retention,
    sourceAddressOf: createSourceAddress(config.trustedProxies ?? []),
    onCall: (provider, outcome, tenantId) => {
      observer.called(provider, outcome)
      countCall(figures, tenantId, outcome)
    },
  }
}

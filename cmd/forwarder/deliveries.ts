import { callbackBoundsOf } from '#cmd/serving/callback-bounds.ts'
import type { KeyRingParts } from '#cmd/serving/key-ring.ts'
import { startNews } from '#cmd/serving/news.ts'
import { pausedBy, startQueueFigures } from '#cmd/serving/queue-figures.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { ProcessTelemetry } from '#cmd/serving/telemetry.ts'
import { countAttemptsByTenant } from '#cmd/serving/tenant-series.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { Forwarder } from '#internal/delivery/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
import { decodeDue, dueChannel, queueSessionSettings, tellForwarders } from '#internal/events/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { createSampler } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { FigureTally } from '#internal/usage/index.ts'
import { createDeliveryTelemetry } from './delivery-telemetry.ts'

/** The settings of deliveries. */
export interface DeliveriesConfig
  extends DatabaseSettings,
    Pick<Config<'forwarder'>, 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy'> {
  /** How long a claim holds unless it is renewed, default 30 s. */
  readonly leaseMs?: number
}

/** What deliveries stand on. */
export interface DeliveriesParts extends KeyRingParts {
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly settings: SettingsWatch
  readonly figures: FigureTally
}

const queuePool = {
  applicationName: 'latchkey-forwarder',
  /** A claim, two settlements, and one for everything else. */
  connectionsMax: 4,
  queryTimeoutMs: 5_000,
  /** A session remembers the plans of each day that it met; after an hour it makes way. */
  lifetimeMsMax: 3_600_000,
}
const allPaused = { all: true, tenants: new Set<string>() }
/** The longest call and the statements after it; the process' own time is the other bound. */
const stopMsMax = 35_000
/** Kept of the process' time for what is closed afterwards. */
const reserveMs = 1_000

/** Starts to deliver what is due, for the scope's life. */
export async function startDeliveries(
  config: DeliveriesConfig,
  { redis, directory, secrets, keyRingGate, settings, figures }: DeliveriesParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const { health, tracing } = telemetry
  const observer = createDeliveryTelemetry(
    telemetry,
    createSampler(() => settings.current.logShare),
    figures,
  )
  const pool = await openPostgres(
    'postgres of deliveries',
    { ...queuePool, ...databaseOf(config), sessionSettings: queueSessionSettings },
    telemetry,
    scope,
  )
  const outbound = await scope.open({
    name: 'callbacks',
    open: () => createOutbound({ ...callbackBoundsOf(config), egressProxy: config.egressProxy }),
    close: (opened) => opened.close(),
  })
  const forwarder = await scope.open({
    name: 'deliveries',
    open: () => {
      const opened = new Forwarder({
        ...{ pool, directory, outbound, tracing, health },
        observer: countAttemptsByTenant(observer, telemetry.metrics, directory),
        ...{ secrets, clock: systemClock },
        ...(config.leaseMs !== undefined && { leaseMs: config.leaseMs }),
        // With a ring that is not proven it would take deliveries from processes that can sign them.
        paused: () => (keyRingGate.isOpen ? pausedBy(settings) : allPaused),
        onGivenBack: (tenantIds) => void tellForwarders(redis, tenantIds).catch(() => undefined),
      })
      opened.start()
      return opened
    },
    close: (opened, leftMs) => opened.stop(Math.max(0, Math.min(stopMsMax, leftMs) - reserveMs)),
    closeMsMax: stopMsMax,
  })
  settings.onChange(() => forwarder.notify('all'))
  void keyRingGate.opened.then(() => forwarder.notify('all'))
  observer.watch(() => forwarder.stats())
  // What is missed is found by the poll.
  await startNews(
    {
      name: 'delivery news',
      channel: dueChannel,
      onMessage: (message) => forwarder.notify(decodeDue(message)),
      missing: 'not subscribed to due deliveries yet',
    },
    redis,
    telemetry,
    scope,
  )
  await startQueueFigures({ pool, settings, figures }, telemetry, scope)
}

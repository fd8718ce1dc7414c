import type { KeyRingParts } from '#cmd/serving/key-ring.ts'
import { startSubscription } from '#cmd/serving/loop.ts'
import type { OnNotified } from '#cmd/serving/notifications.ts'
import { callbackBoundsOf, createLogSampler } from '#cmd/serving/settings.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import { createDeliveryTelemetry, createForwarder } from '#internal/delivery/index.ts'
import { createOutbound } from '#internal/egress/index.ts'
import { dueChannel, queueSessionSettings } from '#internal/events/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'

export interface DeliveriesConfig
  extends DatabaseSettings,
    Pick<Config<'forwarder'>, 'callbackCidrsMax' | 'callbackPorts' | 'egressProxy'> {}

export interface DeliveriesParts extends KeyRingParts {
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly settings: SettingsWatch
  readonly stats: StatsTally
  readonly onNotified: OnNotified
}

const queuePool = {
  applicationName: 'latchkey-forwarder',
  /** One connection for claims, two for loads, two for completion batches, and one for other statements. */
  connectionsMax: 6,
  queryTimeoutMs: 5_000,
  /** A session caches one plan per daily partition, so connections are replaced to limit that cache. */
  lifetimeMsMax: 3_600_000,
}
/**
 * Maximum time in ms for stopping deliveries: the longest callback call and the statements after it. A shorter shutdown grace period of the
 * process shortens this time.
 */
const stopMsMax = 35_000
/** Part of the shutdown grace period in ms that is reserved for the resources that close after deliveries. */
const reserveMs = 1_000

/** Starts deliveries, which run until the scope closes. */
export async function startDeliveries(
  host: Host,
  config: DeliveriesConfig,
  { redis, directory, secrets, keyRingGate, settings, stats, onNotified }: DeliveriesParts,
): Promise<void> {
  const { health, tracing } = host
  const sampler = createLogSampler(settings)
  const observer = createDeliveryTelemetry(host, { sampler, stats, directory, onNotified })
  const pool = await openPostgres(host, 'postgres of deliveries', {
    ...queuePool,
    ...databaseOf(config),
    sessionSettings: queueSessionSettings,
  })
  const outbound = await host.scope.open({
    name: 'callbacks',
    open: () => createOutbound({ ...callbackBoundsOf(config), egressProxy: config.egressProxy }),
    close: (opened) => opened.close(),
  })
  const { forwarder, receiveDue } = createForwarder({
    pool,
    redis,
    directory,
    outbound,
    tracing,
    health,
    observer,
    secrets,
    clock: systemClock,
    settings,
    keyRingGate,
  })
  await host.scope.open({
    name: 'deliveries',
    open: () => forwarder.start(),
    close: (_opened, leftMs) => forwarder.stop(Math.max(0, Math.min(stopMsMax, leftMs) - reserveMs)),
    closeMsMax: stopMsMax,
  })
  observer.watch(() => forwarder.stats())
  await startSubscription(host, redis, {
    name: 'delivery subscription',
    channel: dueChannel,
    onMessage: receiveDue,
  })
}

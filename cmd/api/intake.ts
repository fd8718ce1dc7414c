import { X509Certificate } from 'node:crypto'
import tls from 'node:tls'
import { openLoop, startSubscription } from '#cmd/serving/loop.ts'
import {
  type DatabaseSettings,
  databaseOf,
  openPostgres,
  openRedisOf,
  type RedisSettings,
  redisOf,
} from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import { createOutbound, type Resolve } from '#internal/egress/index.ts'
import {
  dueChannel,
  HandedNews,
  HandOffs,
  notifyForwarders,
  offersChannelFrom,
  type StoreBatchOptions,
  storeBatch,
} from '#internal/events/index.ts'
import { createSourceAddress } from '#internal/http/index.ts'
import {
  Callers,
  Drain,
  type Intake,
  LargeBodies,
  RefusedCalls,
  SizeClassQueues,
  Spool,
} from '#internal/intake/index.ts'
import {
  type CertificateSources,
  createKeyFetch,
  VendorKeys,
  wallet,
  walletSources,
} from '#internal/providers/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory, SecretOpener } from '#internal/tenants/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import { countCall, observeCalls, observeSpool, observeVendorKeys } from './intake-telemetry.ts'
import type { Usage } from './usage.ts'

/** Settings of the webhook intake. */
export interface IntakeConfig extends DatabaseSettings, RedisSettings {
  readonly signatureMaxAgeSeconds: number
  readonly trustedProxies?: readonly string[] | undefined
  readonly redisSpoolDurable: boolean
  readonly gatewaySandbox?: boolean
  readonly publicUrl?: string | undefined
  readonly egressProxy?: string | undefined
  readonly certificates?: CertificateConfig
  /** Called for each refused call of a known tenant. Must not throw. */
  readonly onRefused?: Intake['onRefused']
}

/** Replaces parts of the infrastructure in which vendors publish certificates and keys, in tests. */
export interface CertificateConfig {
  readonly sources?: CertificateSources
  /** Root certificates that signing certificates must chain to, in PEM. */
  readonly roots?: readonly string[]
  /** CA certificate of the servers that provide the signing certificates, in PEM. */
  readonly serverCa?: string
  readonly resolve?: Resolve
  /** Private networks in which certificate servers are allowed. */
  readonly cidrs?: readonly string[]
  /** Port of these servers in place of 443, for addresses without a port. */
  readonly port?: number
}

/** Dependencies of the webhook intake. */
export interface IntakeParts {
  readonly pool: Pool
  readonly redis: RedisConnection
  readonly directory: Directory
  readonly secrets: SecretOpener
  readonly settings: SettingsWatch
  readonly usage: Usage
  readonly stats: StatsTally
}

const refusedFlushMs = 1000
const turnMsMax = 5000
const largeEvents = {
  applicationName: 'latchkey-api large events',
  connectionsMax: 1,
  /** Storing one body of 25 MiB takes almost a second, and several such bodies can wait in a queue for the connection. */
  queryTimeoutMs: 6_000,
}
/** Deadline of spool commands in ms. Long enough for a write that waits for the disk and for a replica. */
const spoolDeadlineMs = 1_500
const drainMs = 1_000
const drainTurnMsMax = 10_000
const drainBackoff = { firstMs: 200, maxMs: 5_000 }
const spoolStatsMs = 5_000

/** Opens the webhook intake and starts its background loops. The intake and the loops run until the scope closes. */
export async function startIntake(
  host: Host,
  config: IntakeConfig,
  { pool, redis, directory, secrets, settings, usage, stats }: IntakeParts,
): Promise<Intake> {
  const observer = observeCalls(host)
  const handOffs = await startHandOffs(host, pool, redis)
  const handedNews = new HandedNews((message) => redis.publish(dueChannel, message))
  const storing: StoreBatchOptions = {
    pool,
    // If the notification is lost, a forwarder still finds the delivery at its next poll.
    wake(due, handed = []) {
      handedNews.add(handed)
      void notifyForwarders(redis, due).catch(() => undefined)
    },
    handOffs,
    onStored: (events) => usage.meter.events.countStored(events),
    onError: observer.storeFailed,
  }
  const spool = await startSpool(host, config, storing)
  const largePool = await openPostgres(host, 'postgres for large events', {
    ...largeEvents,
    ...databaseOf(config),
  })
  const queue = await openEventQueues(host, storing, largePool, spool, observer)
  const refusedCalls = new RefusedCalls(pool, systemClock)
  await openLoop(host, {
    name: 'refused calls',
    intervalMs: refusedFlushMs,
    turnMsMax,
    runOnce: () => refusedCalls.flush(),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'refused calls could not be written; retrying'),
    lastTurn: () => refusedCalls.flush(),
  })
  const largeBodies = await host.scope.open({
    name: 'large bodies',
    open: () => new LargeBodies(),
    close: (opened) => opened.close(),
  })
  const vendorKeys = await openVendorKeys(host, config)
  observer.watch(queue, refusedCalls)
  return {
    queue,
    largeBodies,
    vendorKeys,
    refusedCalls,
    clock: systemClock,
    callers: new Callers({
      directory,
      secrets,
      gatewaySandbox: config.gatewaySandbox ?? false,
      isPaused: (provider, tenantId) => settings.current.isProviderPaused(provider, tenantId),
      onUnusable: observer.declarationUnusable,
    }),
    publicUrl: config.publicUrl,
    signatureAgeMsMax: config.signatureMaxAgeSeconds * 1000,
    checkLimits: (tenant) => usage.meter.events.check(tenant.id, usage.limits.of(tenant).all),
    retentionDefaults: () => settings.current.retention,
    sourceAddressOf: createSourceAddress(config.trustedProxies ?? []),
    onRefused: config.onRefused,
    onCall: (provider, outcome, tenantId) => {
      observer.called(provider, outcome)
      countCall(stats, tenantId, outcome)
    },
  }
}

/** Hands events to the forwarders that offer to take them. */
async function startHandOffs(host: Host, pool: Pool, redis: RedisConnection): Promise<HandOffs> {
  const handOffs = new HandOffs({
    publish: async (channel, message) => (await redis.publish(channel, message)) > 0,
  })
  await startSubscription(host, redis, {
    name: 'offers of forwarders',
    channel: offersChannelFrom(pool),
    onMessage: (message) => handOffs.noteOffer(message),
  })
  return handOffs
}

/**
 * Opens the spool and starts the loop that drains it. The spool has its own Redis connection, because waiting for a replica blocks later
 * commands.
 */
async function startSpool(host: Host, config: IntakeConfig, storing: StoreBatchOptions): Promise<Spool> {
  const { log } = host
  const observer = observeSpool(host)
  // Spooled events are a backlog, which claims share among tenants.
  const { handOffs: _handOffs, ...claimed } = storing
  const options = { ...redisOf(config), deadlineMs: spoolDeadlineMs }
  const redis = await openRedisOf(host, 'redis of the spool', options)
  const spool = new Spool({ redis, vouched: config.redisSpoolDurable, onRefused: observer.refused })
  const drain = new Drain({
    redis,
    storeBatch: (events) => storeBatch({ ...claimed, requeues: false }, events),
    onDead: observer.dead,
  })
  await openLoop(host, {
    name: 'spool drain',
    intervalMs: drainMs,
    turnMsMax: drainTurnMsMax,
    backoff: drainBackoff,
    runOnce: (signal) => drain.runOnce(signal),
    onError: (cause, failures) => log.debug({ failures, cause }, 'spool drain failed; retrying'),
  })
  await openLoop(host, {
    name: 'spool stats',
    intervalMs: spoolStatsMs,
    turnMsMax: drainTurnMsMax,
    runOnce: async () => observer.seen(await spool.stats()),
    onError: (cause, failures) => log.debug({ failures, cause }, 'spool stats could not be read'),
  })
  return spool
}

async function openVendorKeys(
  host: Host,
  config: Pick<IntakeConfig, 'egressProxy' | 'certificates'>,
): Promise<VendorKeys> {
  const { sources = walletSources, roots, serverCa, resolve, cidrs = [], port } = config.certificates ?? {}
  const { egressProxy } = config
  const outbound = await host.scope.open({
    name: 'calls for certificates and key sets',
    open: () => createOutbound({ cidrsMax: cidrs, ports: 'any', egressProxy, ca: serverCa, resolve }),
    close: (opened) => opened.close(),
  })
  // Trusts the runtime's root certificates and those of NODE_EXTRA_CA_CERTS, but not the operating system's certificate store.
  const trusted = (roots ?? [...tls.rootCertificates, ...tls.getCACertificates('extra')]).map(
    (pem) => new X509Certificate(pem),
  )
  const observer = observeVendorKeys(host)
  const vendorKeys = new VendorKeys({
    sources,
    fetchText: createKeyFetch(outbound, { allowedCIDRs: cidrs, port }),
    trust: (chain) => wallet.trust(chain, trusted),
    clock: systemClock,
    onFetched: observer.fetched,
  })
  observer.watch(vendorKeys)
  return vendorKeys
}

function openEventQueues(
  host: Host,
  storing: StoreBatchOptions,
  largePool: Pool,
  spool: Spool,
  observer: ReturnType<typeof observeCalls>,
): Promise<SizeClassQueues> {
  return host.scope.open({
    name: 'event queues',
    open: () =>
      new SizeClassQueues({
        storeBatch: (events, onCompleted) => storeBatch(storing, events, onCompleted),
        storeLarge: (events, onCompleted) => storeBatch({ ...storing, pool: largePool }, events, onCompleted),
        spool: (event) => spool.append(event),
        onBreaker: observer.storeBreaker,
      }),
    close: (opened) => opened.close(),
  })
}

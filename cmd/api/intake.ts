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
import { offersChannelFrom } from '#internal/events/index.ts'
import {
  createIntake,
  type IntakeParts,
  type IntakeSettings,
  type OpenIntake,
  observeIntake,
  observeVendorKeys,
  type SpoolStats,
} from '#internal/intake/index.ts'
import {
  type CertificateSources,
  createKeyFetch,
  VendorKeys,
  wallet,
  walletSources,
} from '#internal/providers/index.ts'
import type { StatsTally } from '#internal/usage/index.ts'
import type { Usage } from './usage.ts'

export interface IntakeConfig extends IntakeSettings, DatabaseSettings, RedisSettings {
  readonly egressProxy?: string | undefined
  readonly certificates?: {
    readonly sources?: CertificateSources
    /** Root certificates that signing certificates must chain to, in PEM. */
    readonly roots?: readonly string[]
    /** CA certificate of the servers that provide the signing certificates, in PEM. */
    readonly serverCa?: string
    readonly resolve?: Resolve
    /** Private networks in which certificate servers are allowed. */
    readonly cidrs?: readonly string[]
    /** Port of certificate servers for addresses without a port; default 443. */
    readonly port?: number
  }
}

export interface SharedIntakeParts
  extends Pick<IntakeParts, 'pool' | 'redis' | 'directory' | 'secrets' | 'settings'> {
  readonly usage: Usage
  readonly stats: StatsTally
}

const refusedFlushMs = 1000
const turnMsMax = 5000
const largeEvents = {
  applicationName: 'latchkey-api large events',
  connectionsMax: 1,
  /** Time for several bodies of 25 MiB that wait for the same connection. Storing one of them takes almost a second. */
  queryTimeoutMs: 6_000,
}
/** Deadline of spool commands in ms. Long enough for a write that waits for the disk and for a replica. */
const spoolDeadlineMs = 1_500
const drainMs = 1_000
const drainTurnMsMax = 10_000
const drainBackoff = { firstMs: 200, maxMs: 5_000 }
const spoolStatsMs = 5_000

/** Opens the stores of the webhook intake and starts its loops. The intake and the loops run until the scope closes. */
export async function startIntake(
  host: Host,
  config: IntakeConfig,
  { usage, stats, ...shared }: SharedIntakeParts,
): Promise<OpenIntake> {
  const spoolRedis = await openRedisOf(host, 'redis of the spool', {
    ...redisOf(config),
    deadlineMs: spoolDeadlineMs,
  })
  const largePool = await openPostgres(host, 'postgres for large events', {
    ...largeEvents,
    ...databaseOf(config),
  })
  const vendorKeys = await openVendorKeys(host, config)
  const observer = observeIntake(host, stats)
  const intake = await host.scope.open({
    name: 'intake',
    open: () =>
      createIntake(config, {
        ...shared,
        largePool,
        spoolRedis,
        vendorKeys,
        meter: usage.meter,
        limits: usage.limits,
        clock: systemClock,
        observer,
      }),
    close: (opened) => opened.close(),
  })
  observer.watch(intake)
  await startSubscription(host, shared.redis, {
    name: 'offers of forwarders',
    channel: offersChannelFrom(shared.pool),
    onMessage: (message) => intake.handOffs.noteOffer(message),
  })
  await startLoops(host, intake, observer.seen)
  return intake
}

async function startLoops(
  host: Host,
  { refusedCalls, drain, spool }: OpenIntake,
  seen: (stats: SpoolStats) => void,
): Promise<void> {
  const { log } = host
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
    runOnce: async () => seen(await spool.stats()),
    onError: (cause, failures) => log.debug({ failures, cause }, 'spool stats could not be read'),
  })
  await openLoop(host, {
    name: 'refused calls',
    intervalMs: refusedFlushMs,
    turnMsMax,
    runOnce: () => refusedCalls.flush(),
    onError: (cause, failures) =>
      log.warn({ failures, cause }, 'refused calls could not be written; retrying'),
    lastTurn: () => refusedCalls.flush(),
  })
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

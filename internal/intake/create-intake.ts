import type { Clock } from '#internal/base/index.ts'
import {
  dueChannel,
  HandedNews,
  HandOffs,
  notifyForwarders,
  type StoreBatchOptions,
  storeBatch,
} from '#internal/events/index.ts'
import { createSourceAddress } from '#internal/http/index.ts'
import type { VendorKeys } from '#internal/providers/index.ts'
import type { SettingsWatch } from '#internal/settings/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Directory, SecretOpener } from '#internal/tenants/index.ts'
import type { LimitsInForce, Meter } from '#internal/usage/index.ts'
import { Callers } from './caller.ts'
import { Drain } from './drain.ts'
import { SizeClassQueues } from './event-queue.ts'
import type { Intake } from './http.ts'
import { LargeBodies } from './large-bodies.ts'
import { RefusedCalls } from './refused-calls.ts'
import { Spool } from './spool.ts'
import type { IntakeObserver } from './telemetry.ts'

/** Settings of the webhook intake. */
export interface IntakeSettings extends Pick<Intake, 'publicUrl' | 'onRefused'> {
  readonly signatureMaxAgeSeconds: number
  /** Networks of proxies whose `X-Forwarded-For` is read. Default: none. */
  readonly trustedProxies?: readonly string[] | undefined
  /** True if the operator guarantees that Redis keeps the spool over a restart. */
  readonly redisSpoolDurable: boolean
  /** Enables the reserved provider `gateway` for trials. Default: false. */
  readonly gatewaySandbox?: boolean
}

/** Dependencies of the webhook intake. The caller closes them. */
export interface IntakeParts {
  readonly pool: Pool
  /** Stores large events on a separate connection with a longer timeout. */
  readonly largePool: Pool
  readonly redis: RedisConnection
  /** Connection of the spool only, because waiting for a replica blocks later commands. */
  readonly spoolRedis: RedisConnection
  readonly directory: Directory
  readonly secrets: SecretOpener
  readonly vendorKeys: VendorKeys
  readonly settings: SettingsWatch
  readonly meter: Meter
  readonly limits: LimitsInForce
  readonly clock: Clock
  readonly observer: IntakeObserver
}

/** The webhook intake of a process. */
export interface OpenIntake extends Intake {
  readonly queue: SizeClassQueues
  readonly spool: Spool
  /** Stores spooled events. Run it in a loop. */
  readonly drain: Drain
  /** Hands events to the forwarders that offer to take them. Pass each offer of a forwarder to `noteOffer`. */
  readonly handOffs: HandOffs
  /** Stops the probes of the queues and the worker for large bodies. Call it after the last webhook call. Idempotent. */
  close(): void
}

/** Creates the webhook intake, which makes a call a stored, spooled or handed-off event. Starts no loops. */
export function createIntake(config: IntakeSettings, parts: IntakeParts): OpenIntake {
  const { pool, largePool, redis, spoolRedis, settings, meter, limits, clock, observer } = parts
  const handOffs = new HandOffs({
    publish: async (channel, message) => (await redis.publish(channel, message)) > 0,
  })
  const handedNews = new HandedNews((message) => redis.publish(dueChannel, message))
  // Spooled events are not handed off: they are a backlog, which claims divide among tenants.
  const draining: StoreBatchOptions = {
    pool,
    // If the notification is lost, a forwarder still finds the delivery at its next poll.
    wake(due, handed = []) {
      handedNews.add(handed)
      void notifyForwarders(redis, due).catch(() => undefined)
    },
    onStored: (events) => meter.events.countStored(events),
    onError: (cause, kind) => observer.storeFailed(cause, kind),
    requeues: false,
  }
  const storing: StoreBatchOptions = { ...draining, handOffs, requeues: true }
  const spool = new Spool({
    redis: spoolRedis,
    vouched: config.redisSpoolDurable,
    onRefused: (reason, events, cause) => observer.spoolRefused(reason, events, cause),
  })
  const queue = new SizeClassQueues({
    storeBatch: (events, onCompleted) => storeBatch(storing, events, onCompleted),
    storeLarge: (events, onCompleted) => storeBatch({ ...storing, pool: largePool }, events, onCompleted),
    spool: (event) => spool.append(event),
    onBreaker: (size, isOpen) => observer.storeBreaker(size, isOpen),
  })
  const largeBodies = new LargeBodies()
  return {
    queue,
    spool,
    drain: new Drain({
      redis: spoolRedis,
      storeBatch: (events) => storeBatch(draining, events),
      onDead: (entry) => observer.spoolDead(entry),
    }),
    handOffs,
    largeBodies,
    vendorKeys: parts.vendorKeys,
    refusedCalls: new RefusedCalls(pool, clock),
    clock,
    callers: new Callers({
      directory: parts.directory,
      secrets: parts.secrets,
      gatewaySandbox: config.gatewaySandbox ?? false,
      settings,
      onUnusable: (provider, cause) => observer.declarationUnusable(provider, cause),
    }),
    publicUrl: config.publicUrl,
    signatureAgeMsMax: config.signatureMaxAgeSeconds * 1000,
    checkLimits: (tenant) => meter.events.check(tenant.id, limits.of(tenant).all),
    sourceAddressOf: createSourceAddress(config.trustedProxies ?? []),
    onRefused: config.onRefused,
    onCall: (provider, outcome, tenantId) => observer.called(provider, outcome, tenantId),
    close() {
      queue.close()
      largeBodies.close()
    },
  }
}

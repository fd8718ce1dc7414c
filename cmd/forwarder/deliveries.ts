import type { ProcessTelemetry } from '#cmd/api/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import {
  decodeDue,
  dueChannel,
  encodeDue,
  Forwarder,
  queueSessionSettings,
  readQueueDepth,
} from '#internal/deliveries/index.ts'
import { createOutbound } from '#internal/http/index.ts'
import { type Scope, type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import { createPool, type Pool, type RedisConnection } from '#internal/storage/index.ts'
import type { Directory, KeyRing } from '#internal/tenants/index.ts'
import { createDeliveryTelemetry } from './delivery-telemetry.ts'

/** The settings of deliveries. */
export interface DeliveriesConfig
  extends Pick<Config<'forwarder'>, 'databaseUrl' | 'callbackCidrsMax' | 'egressProxy'> {
  readonly keyRing: KeyRing
  /** How long a claim holds unless it is renewed, default 30 s. */
  readonly leaseMs?: number
}

/** What deliveries stand on. */
export interface DeliveriesParts {
  readonly redis: RedisConnection
  readonly directory: Directory
}

/** A claim, two settlements, and one for everything else. */
const connectionsMax = 4
const statementMsMax = 5_000
/** A session remembers the plans of each day that it met; after an hour it makes way. */
const lifetimeMsMax = 3_600_000
const connectMsMax = 2_000
/** The longest call and the statements after it; the process' own time is the other bound. */
const stopMsMax = 35_000
/** Kept of the process' time for what is closed afterwards. */
const reserveMs = 1_000
const subscribeMs = 5_000
const depthMs = 5_000
const turnMsMax = 5_000

/** Starts to deliver what is due, for the scope's life. */
export async function startDeliveries(
  config: DeliveriesConfig,
  { redis, directory }: DeliveriesParts,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<void> {
  const { log, health, tracing } = telemetry
  const observer = createDeliveryTelemetry(telemetry)
  const pool = await openQueuePool(config.databaseUrl, telemetry, scope)
  const outbound = await scope.open({
    name: 'callbacks',
    open: () => createOutbound({ cidrsMax: config.callbackCidrsMax ?? [], egressProxy: config.egressProxy }),
    close: (opened) => opened.close(),
  })
  const forwarder = await scope.open({
    name: 'deliveries',
    open: () => {
      const opened = new Forwarder({
        ...{ pool, directory, outbound, tracing, observer, health },
        ...{ keyRing: config.keyRing, clock: systemClock },
        ...(config.leaseMs !== undefined && { leaseMs: config.leaseMs }),
        onGivenBack: (tenantIds) =>
          void redis.publish(dueChannel, encodeDue(tenantIds)).catch(() => undefined),
      })
      opened.start()
      return opened
    },
    close: (opened, leftMs) => opened.stop(Math.max(0, Math.min(stopMsMax, leftMs) - reserveMs)),
    closeMsMax: stopMsMax,
  })
  observer.watch(() => forwarder.stats())
  const loop = (name: string, intervalMs: number, runOnce: () => Promise<void>, text: string) =>
    scope.open<SupervisedLoop>({
      name,
      open: () =>
        superviseLoop({
          ...{ name, intervalMs, turnMsMax, runOnce, health },
          onError: (cause, failures) => log.debug({ failures, cause }, text),
        }),
      close: (opened) => opened.stop(),
    })
  const subscribe = subscribeOnce(redis, forwarder)
  await loop('delivery news', subscribeMs, subscribe, 'not subscribed to due deliveries yet')
  const look = async () => observer.queueSeen(await readQueueDepth(pool))
  await loop('delivery queue', depthMs, look, 'the queue’s depth could not be read')
}

function openQueuePool(databaseUrl: string, { log }: ProcessTelemetry, scope: Scope): Promise<Pool> {
  return scope.open({
    name: 'postgres of deliveries',
    open: () =>
      createPool({
        url: databaseUrl,
        applicationName: 'latchkey-forwarder',
        connectionsMax,
        queryTimeoutMs: statementMsMax,
        connectTimeoutMs: connectMsMax,
        lifetimeMsMax,
        sessionSettings: queueSessionSettings,
        onIdleError: (error) => log.warn({ cause: error.message }, 'an idle connection to Postgres broke'),
      }),
    close: (opened) => opened.end(),
  })
}

/** The connection subscribes again by itself; what is missed meanwhile is found by the poll. */
function subscribeOnce(redis: RedisConnection, forwarder: Forwarder): () => Promise<void> {
  let subscribed = false
  return async () => {
    if (subscribed) return
    await redis.subscribe(dueChannel, (message) => forwarder.notify(decodeDue(message)))
    subscribed = true
  }
}

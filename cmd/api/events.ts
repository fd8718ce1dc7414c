import { startSubscription } from '#cmd/serving/loop.ts'
import { type DatabaseSettings, databaseOf, eventReads, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { createAccess } from '#internal/access/index.ts'
import { createTenantDesks, searchConnectionsMax, type TenantRouteParts } from '#internal/backoffice/index.ts'
import { Shares, systemClock } from '#internal/base/index.ts'
import { decodeDue, dueChannel, storedOf } from '#internal/events/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import { EventStreams, FeedNews } from '#internal/subscriptions/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { Usage } from './usage.ts'

/** Separate connections, so that reading events never delays records and intake. Searches occupy at most three of the four. */
const pool = {
  applicationName: 'latchkey-api events',
  connectionsMax: searchConnectionsMax + 1,
  queryTimeoutMs: 2_000,
  ...eventReads,
}
/** Maximum number of calls in flight per process; one tenant may have a quarter of them. */
const callsMax = 32

/** Opens the connections of the routes about tenants' events until the scope closes. */
export async function openEventApi(
  host: Host,
  config: DatabaseSettings,
  {
    redis,
    directory,
    usage,
  }: {
    readonly redis: RedisConnection
    readonly directory: Directory
    readonly usage: Usage
  },
): Promise<TenantRouteParts> {
  const opened = await openPostgres(host, 'postgres of event calls', { ...pool, ...databaseOf(config) })
  const access = createAccess({ directory, clock: systemClock })
  const onTrouble = (cause: unknown) => host.log.warn({ cause }, 'store of event calls is unavailable')
  const feeds = { pool: opened, clock: systemClock, ending: host.scope.signal, onTrouble }
  const news = new FeedNews(feeds)
  // If a message is lost, the polling of the streams still finds the events.
  await startSubscription(host, redis, {
    name: 'event stream subscription',
    channel: dueChannel,
    onMessage: (message) => news.notify(storedOf(decodeDue(message))),
  })
  const backoffice = createTenantDesks({
    pool: opened,
    readPool: opened,
    redis,
    directory,
    access,
    clock: systemClock,
    limits: usage.limits,
    news,
    streams: new EventStreams({ ...feeds, news }),
    onTrouble,
  })
  return { backoffice, directory, calls: new Shares(callsMax) }
}

import { openLoop } from '#cmd/serving/loop.ts'
import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import {
  chooseRecordStore,
  DurableRecordStore,
  durableSessionSettings,
  endMoves,
  type NoteLock,
  type RecordStore,
  type RecordTenant,
  RedisRecordStore,
} from '#internal/records/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import type { ApiHost } from './telemetry.ts'
import type { Usage } from './usage.ts'

/** Connections of durable records. A statement is cancelled early enough for its call to be answered within a second. */
const connections = {
  applicationName: 'latchkey-api records',
  connectionsMax: 4,
  queryTimeoutMs: 700,
  sessionSettings: durableSessionSettings,
}

/** Longest time that a lock and its tombstone are kept beyond the ttl: seven days, and a margin for the lock itself. */
const tombstoneMsMax = 8 * 86_400_000
const movesMs = 600_000
const movesMsMax = 25_000
const movesBackoff = { firstMs: 5_000, maxMs: 60_000 }

/** Opens the stores of records. Returns the function that chooses the store of a tenant, by the directory's latest view of it. */
export async function startRecordStores(
  host: ApiHost,
  config: DatabaseSettings & { readonly recordTtlSecondsMax: number },
  {
    pool,
    redis,
    directory,
    usage,
    note,
  }: {
    /** Pool for background work, which must not use the connections of durable records. */
    readonly pool: Pool
    readonly redis: RedisConnection
    readonly directory: Pick<Directory, 'findTenantById'>
    readonly usage: Usage
    readonly note: NoteLock
  },
): Promise<(tenant: RecordTenant) => RecordStore> {
  const ownPool = await openPostgres(host, 'postgres for records', { ...connections, ...databaseOf(config) })
  const inRedis = new RedisRecordStore(redis, usage.meter, { note })
  const inPostgres = new DurableRecordStore({
    pool: ownPool,
    redis,
    meter: usage.meter,
    note,
    onError: host.durableFailed,
  })
  unlabelled(host.metrics).gauge(
    'latchkey_records_postgres_pending_count',
    'Calls to records in Postgres that wait for a transaction.',
    () => inPostgres.pending,
  )
  const stores = { redis: inRedis, postgres: inPostgres }
  await openLoop(host, {
    name: 'moves of records',
    intervalMs: movesMs,
    turnMsMax: movesMsMax,
    backoff: movesBackoff,
    runOnce: (signal) =>
      endMoves(
        {
          pool,
          entryMsMax: config.recordTtlSecondsMax * 1000 + tombstoneMsMax,
          closeRedis: (tenantId) => usage.meter.seed(tenantId),
          bytesInRedis: (tenantId) => usage.meter.recordBytes(tenantId),
          lastFenceInRedis: (tenantId) => inRedis.lastFence(tenantId),
        },
        signal,
      ),
    onError: (cause, failures) =>
      host.log.warn({ failures, cause }, 'moves of records could not be completed; retrying'),
  })
  const storeOf = chooseRecordStore(stores)
  return (tenant) => storeOf((directory.findTenantById(tenant.id) ?? tenant).recordStore)
}

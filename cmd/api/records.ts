import { type DatabaseSettings, databaseOf, openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import {
  DurableRecordStore,
  MovingRecordStore,
  type NoteLock,
  type RecordStore,
  type RecordTenant,
  RedisRecordStore,
} from '#internal/records/index.ts'
import type { RedisConnection } from '#internal/storage/index.ts'
import type { Usage } from './usage.ts'

/** Dependencies of the stores of records. */
export interface RecordStoreParts {
  readonly redis: RedisConnection
  readonly usage: Usage
  readonly note: NoteLock
}

/**
 * Connections of durable records. A statement is cancelled early enough for its call to be answered within a second. Plans are generic, so
 * that a plan does not depend on the first batch.
 */
const connections = {
  applicationName: 'latchkey-api records',
  connectionsMax: 4,
  queryTimeoutMs: 700,
  sessionSettings: { jit: 'off', enable_seqscan: 'off', plan_cache_mode: 'force_generic_plan' },
}

/** Opens the stores of records. Returns the function that chooses the store of a tenant. */
export async function startRecordStores(
  host: Host,
  config: DatabaseSettings,
  { redis, usage, note }: RecordStoreParts,
): Promise<(tenant: RecordTenant) => RecordStore> {
  const pool = await openPostgres(host, 'postgres for records', { ...connections, ...databaseOf(config) })
  const inRedis = new RedisRecordStore(redis, usage.meter, { note })
  const inPostgres = new DurableRecordStore({ pool, redis, note })
  const stores = { redis: inRedis, postgres: inPostgres }
  return ({ recordStore }) =>
    recordStore.generation === 0 ? inRedis : new MovingRecordStore(stores, recordStore)
}

export { BatchWriter, BufferedWriter, retryWithBackoff, writeRows, writeRowsOrThrow } from './batch-writer.ts'
export { type AdvisoryLock, tryAdvisoryLock } from './postgres/advisory-lock.ts'
export { migrate, readDatabaseId } from './postgres/migrate.ts'
export {
  type ExpiredPartition,
  ensurePartitions,
  ensurePartitionsAhead,
  lastExpiredDay,
  missingRecordPartitions,
  type PartitionedTable,
  partitionedTables,
  partitionName,
  type WantedPartition,
} from './postgres/partitions.ts'
export {
  createPool,
  numberArrayParam,
  type Pool,
  type PoolClient,
  type PoolOptions,
  textArrayParam,
  withTx,
} from './postgres/pool.ts'
export { type PurgeStep, purgeByKey, purgeByPartition } from './postgres/purge.ts'
export {
  type RemovedRows,
  type RetentionObserver,
  type RetentionStep,
  removeOldest,
  runRetention,
} from './postgres/retention.ts'
export { epochMs, int8, orm } from './postgres/schema.ts'
export { classifySqlError, isMistake, sqlErrorOf, withoutParameters } from './postgres/sql-failure.ts'
export { redisCheck, schemaCheck } from './readiness.ts'
export { openRedis, type RedisConnection, type RedisOptions } from './redis/client.ts'
export {
  type ChannelListener,
  type RedisFailure,
  RedisUnavailable,
} from './redis/connection.ts'
export type { RedisDurability } from './redis/durability.ts'
export { defineScript, type RedisScript } from './redis/script.ts'
export { type StoreAddress, type StoreTls, TlsFailure } from './tls.ts'

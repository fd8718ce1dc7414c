export { BatchWriter, BufferedWriter, retryWithBackoff, writeRows, writeRowsOrThrow } from './batch-writer.ts'
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
  type AdvisoryLock,
  createPool,
  numberArrayParam,
  type Pool,
  type PoolClient,
  type PoolOptions,
  textArrayParam,
  tryAdvisoryLock,
  withTx,
} from './postgres/pool.ts'
export {
  type PurgeStep,
  purgeByKey,
  purgeByPartition,
  type RemovedRows,
  type RetentionObserver,
  type RetentionStep,
  removeOldest,
  runRetention,
} from './postgres/retention.ts'
export { epochMs, int8, orm } from './postgres/schema.ts'
export { classifySqlError, isMistake, sqlErrorOf, withoutParameters } from './postgres/sql-failure.ts'
export { redisCheck, schemaCheck } from './readiness.ts'
export {
  defineScript,
  openRedis,
  type RedisConnection,
  type RedisOptions,
  type RedisScript,
} from './redis/client.ts'
export type { RedisDurability } from './redis/durability.ts'
export {
  type ChannelListener,
  type RedisFailure,
  RedisUnavailable,
} from './redis/session.ts'
export { type StoreAddress, type StoreTls, TlsFailure } from './tls.ts'

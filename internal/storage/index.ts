export {
  type BatchBounds,
  BatchWriter,
  type BatchWriterOptions,
  BufferedWriter,
  type BufferedWriterOptions,
  type RetryBounds,
  type RowResult,
  type RowWrite,
  retryWithBackoff,
  takeBatch,
  writeRows,
  writeRowsOrThrow,
} from './batch-writer.ts'
export {
  type MigrateLog,
  type MigrateOptions,
  type MigrateResult,
  migrate,
  schemaVersion,
  schemaVersionNeeded,
} from './postgres/migrate.ts'
export type { Migration } from './postgres/migrations/list.ts'
export {
  type ExpiredPartition,
  ensurePartitions,
  ensurePartitionsAhead,
  lastExpiredDay,
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
  type RetentionResult,
  type RetentionStep,
  type RetentionTurn,
  removeOldest,
  runRetention,
} from './postgres/retention.ts'
export { epochMs, int8, orm } from './postgres/schema.ts'
export {
  classifySqlError,
  isMistake,
  type SqlError,
  type SqlFailure,
  type SqlFailureKind,
  sqlErrorOf,
  withoutParameters,
} from './postgres/sql-failure.ts'
export { redisCheck, schemaCheck } from './readiness.ts'
export { openRedis, type RedisOptions } from './redis/client.ts'
export {
  type ChannelListener,
  type RedisConnection,
  type RedisFailure,
  type RedisServerFacts,
  RedisUnavailable,
} from './redis/connection.ts'
export type { KeptReply, RedisDurability } from './redis/durability.ts'
export { defineScript, type RedisScript } from './redis/script.ts'
export { parseRedisUrl, type RedisAddress } from './redis/url.ts'
export { type StoreAddress, type StoreTls, TlsFailure } from './tls.ts'

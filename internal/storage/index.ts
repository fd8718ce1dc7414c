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
export { numberArrayParam, textArrayParam } from './postgres/array-param.ts'
export { type ExpiredPartition, lastExpiredDay } from './postgres/expired-partitions.ts'
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
  ensurePartitions,
  type PartitionedTable,
  partitionedTables,
  partitionName,
  type WantedPartition,
} from './postgres/partitions.ts'
export { ensurePartitionsAhead } from './postgres/partitions-ahead.ts'
export { createPool, type Pool, type PoolClient, type PoolOptions } from './postgres/pool.ts'
export { removeOldest } from './postgres/remove-oldest.ts'
export {
  type RemovedRows,
  type RetentionObserver,
  type RetentionResult,
  type RetentionStep,
  type RetentionTurn,
  runRetention,
} from './postgres/retention.ts'
export {
  apiKeys,
  audit,
  directoryVersion,
  orm,
  slugReservations,
  tenantSecrets,
  tenants,
  usageHourly,
  writerFence,
} from './postgres/schema.ts'
export {
  classifySqlError,
  isMistake,
  type SqlError,
  type SqlFailure,
  type SqlFailureKind,
  sqlErrorOf,
  withoutParameters,
} from './postgres/sql-failure.ts'
export { withTx } from './postgres/tx.ts'
export { redisCheck, schemaCheck } from './readiness.ts'
export type { RedisOptions } from './redis/client.ts'
export { openRedis } from './redis/client.ts'
export type { ChannelListener, RedisConnection, RedisFailure, RedisServerFacts } from './redis/connection.ts'
export { RedisUnavailable } from './redis/connection.ts'
export type { KeptReply, RedisDurability } from './redis/durability.ts'
export type { RedisScript } from './redis/script.ts'
export { defineScript } from './redis/script.ts'
export type { RedisAddress } from './redis/url.ts'
export { parseRedisUrl } from './redis/url.ts'
export { type StoreAddress, type StoreTls, TlsFailure } from './tls.ts'

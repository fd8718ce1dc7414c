import type { Scope } from '#internal/process/index.ts'
import {
  createPool,
  openRedis,
  type Pool,
  type PoolOptions,
  type RedisConnection,
  type RedisOptions,
} from '#internal/storage/index.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/** What a process opens its two stores with. */
export interface StoresOptions extends Omit<PostgresOptions, 'url'> {
  readonly databaseUrl: string
  readonly redisUrl: string
}

/** The stores of a process. */
export interface Stores {
  readonly pool: Pool
  readonly redis: RedisConnection
}

/** What a pool of a process is opened with. */
export type PostgresOptions = Omit<PoolOptions, 'connectTimeoutMs' | 'onIdleError'>

const connectMsMax = 2_000

/** Opens Postgres and Redis for the scope's life. Neither has to be there yet. */
export async function openStores(
  { databaseUrl, redisUrl, ...pooled }: StoresOptions,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<Stores> {
  const pool = await openPostgres('postgres', { url: databaseUrl, ...pooled }, telemetry, scope)
  const redis = await openRedisOf('redis', { url: redisUrl }, telemetry, scope)
  return { pool, redis }
}

/** Opens one more pool for the scope's life; `name` names it in the log. */
export function openPostgres(
  name: string,
  options: PostgresOptions,
  { log, connectionBroke, watchPool }: Pick<ProcessTelemetry, 'log' | 'connectionBroke' | 'watchPool'>,
  scope: Scope,
): Promise<Pool> {
  const onIdleError = (error: Error) => {
    connectionBroke(name)
    log.warn({ cause: error.message }, 'an idle connection to Postgres broke')
  }
  return scope.open({
    name,
    open: () => {
      const pool = createPool({ ...options, connectTimeoutMs: connectMsMax, onIdleError })
      watchPool(name, pool, options.connectionsMax)
      return pool
    },
    close: (pool) => pool.end(),
  })
}

/** Opens one more connection to Redis for the scope's life; `name` names it in the log. */
export function openRedisOf(
  name: string,
  options: Pick<RedisOptions, 'url' | 'deadlineMs'>,
  { redisError, redisRefused }: Pick<ProcessTelemetry, 'redisError' | 'redisRefused'>,
  scope: Scope,
): Promise<RedisConnection> {
  return scope.open({
    name,
    open: () => openRedis({ ...options, onError: redisError, onRefused: redisRefused }),
    close: (redis) => redis.close(),
  })
}
